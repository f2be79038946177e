# ConvTranspose, then bilinear x 1/2: an average pool, which composes: two taps an axis.
# cheapest: 332 Mflop, 1 pass
graph half_bilinear {
  %x = input f32[4,64,48,48]
  %w = param f32[64,32,4,4]
  %b = param f32[32]
  %y = conv_transpose(%x, %w, %b) stride=[2,2] padding=[1,1]
  %z = interpolate(%y) scale=[0.5,0.5]
  return %z
}
