# A pixel shuffle is a place where a convolution writes: a transposed convolution of stride 2 with the same weight, its bias by phase.
# cheapest: 166 Mflop, 1 pass
# gradient: 497 Mflop
graph pixel_shuffle {
  %x = input f32[4,64,48,48]
  %w = param f32[16,64,3,3]
  %b = param f32[16]
  %y = conv(%x, %w, %b) padding=[1,1]
  %r = relu(%y)
  %p = reshape(%r) shape=[4,4,2,2,48,48]
  %q = permute(%p) order=[0,1,4,2,5,3]
  %z = reshape(%q) shape=[4,4,96,96]
  return %z
}
