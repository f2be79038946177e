# The mean of a ConvT beside what is interpolated: both are read once, where they are small.
# cheapest: 1.8 Mflop, 2 passes
# gradient: 3.5 Mflop
graph mean_of_transposed_and_bilinear {
  %x = input f32[4,64,48,48]
  %w = param f32[64,64,4,4]
  %b = param f32[64]
  %y = conv_transpose(%x, %w, %b) stride=[2,2] padding=[1,1]
  %u = interpolate(%x) scale=[2,2]
  %s = add(%y, %u)
  %m = mean(%s) dims=[2,3]
  return %m
}
