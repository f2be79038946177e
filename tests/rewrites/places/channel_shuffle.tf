# Channels shuffled between two convolutions are rows of the second's weight.
# cheapest: 682 Mflop, 2 passes
# gradient: 1390 Mflop
graph channel_shuffle {
  %x = input f32[4,64,48,48]
  %w = param f32[64,16,1,1]
  %b = param f32[64]
  %v = param f32[64,64,3,3]
  %y = conv(%x, %w, %b) groups=4
  %r = relu(%y)
  %p = reshape(%r) shape=[4,4,16,48,48]
  %q = permute(%p) order=[0,2,1,3,4]
  %u = reshape(%q) shape=[4,64,48,48]
  %z = conv(%u, %v) padding=[1,1]
  return %z
}
