# One image for the whole batch, 3x3, and a 1x1 of each sample: the first is convolved once.
# cheapest: 122 Mflop, 2 passes
graph one_for_the_batch {
  %e = input f32[1,64,48,48]
  %x = input f32[4,64,48,48]
  %w = param f32[32,64,3,3]
  %v = param f32[32,64,1,1]
  %i = expand(%e) shape=[4,64,48,48]
  %y = conv(%i, %w) padding=[1,1]
  %z = conv(%x, %v)
  %o = add(%y, %z)
  return %o
}
