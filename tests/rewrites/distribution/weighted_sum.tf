# Σ over the image of m·ConvT(x), m a parameter [1, 1, H, W]: a correlation of x with m.
# cheapest: 40 Mflop, 2 passes
# gradient: 57.9 Mflop
graph weighted_sum {
  %x = input f32[4,64,48,48]
  %w = param f32[64,128,4,4]
  %b = param f32[128]
  %m = param f32[1,1,96,96]
  %y = conv_transpose(%x, %w, %b) stride=[2,2] padding=[1,1]
  %p = mul(%y, %m)
  %z = sum(%p) dims=[2,3]
  return %z
}
