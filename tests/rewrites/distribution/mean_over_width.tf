# The mean over one axis of two convolutions: box sums of rows, then two products of columns.
# cheapest: 85 Mflop, 3 passes
# gradient: 240 Mflop
graph mean_over_width {
  %x = input f32[4,64,48,48]
  %w = param f32[64,64,3,3]
  %b = param f32[64]
  %v = param f32[64,64,3,3]
  %y = conv(%x, %w, %b) padding=[1,1]
  %z = conv(%y, %v) padding=[1,1]
  %m = mean(%z) dims=[3]
  return %m
}
