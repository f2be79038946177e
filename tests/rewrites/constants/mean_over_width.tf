# The mean over the width, put everywhere along it, 3x3, added to a 1x1 (strip pooling): three columns are made.
# cheapest: 46.8 Mflop, 3 passes
graph mean_over_width {
  %x = input f32[4,64,48,48]
  %w = param f32[32,64,3,3]
  %v = param f32[32,64,1,1]
  %m = mean(%x) dims=[3] keepdim=1
  %i = expand(%m) shape=[4,64,48,48]
  %y = conv(%i, %w) padding=[1,1]
  %z = conv(%x, %v)
  %o = add(%y, %z)
  return %o
}
