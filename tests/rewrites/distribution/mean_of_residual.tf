# The mean behind a residual of two upsamplings of two inputs and an input: the convolutions collapse, the input is read once.
# cheapest: 10 Mflop, 3 passes
# gradient: 4.1 Mflop
graph mean_of_residual {
  %x = input f32[4,64,48,48]
  %u = input f32[4,32,48,48]
  %r = input f32[4,128,96,96]
  %w = param f32[64,128,4,4]
  %b = param f32[128]
  %v = param f32[32,128,2,2]
  %y = conv_transpose(%x, %w, %b) stride=[2,2] padding=[1,1]
  %z = conv_transpose(%u, %v) stride=[2,2]
  %s = add(%y, %z)
  %t = add(%s, %r)
  %m = mean(%t) dims=[2,3]
  return %m
}
