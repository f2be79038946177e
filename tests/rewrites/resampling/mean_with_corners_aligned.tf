# The mean of a convolution that is interpolated with corners aligned: inputs at corners weigh less.
# cheapest: 2 Mflop, 1 pass
# gradient: 6 Mflop
graph mean_with_corners_aligned {
  %x = input f32[4,64,48,48]
  %w = param f32[64,64,3,3]
  %b = param f32[64]
  %y = conv(%x, %w, %b) padding=[1,1]
  %u = interpolate(%y) scale=[1.0,2.0] align_corners=1
  %m = mean(%u) dims=[2,3]
  return %m
}
