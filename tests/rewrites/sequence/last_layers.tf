# The last layers of a decoder with nothing between them: the product of both weights is one ConvTranspose of 64 channels to 3.
# cheapest: 14.7 Mflop, 1 pass
# gradient: 29.8 Mflop
graph last_layers {
  %x = input f32[4,64,48,48]
  %w1 = param f32[64,256,2,2]
  %b1 = param f32[256]
  %w2 = param f32[3,256,1,1]
  %b2 = param f32[3]
  %y = conv_transpose(%x, %w1, %b1) stride=[2,2]
  %z = conv(%y, %w2, %b2)
  return %z
}
