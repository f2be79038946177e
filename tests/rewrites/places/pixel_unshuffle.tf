# A pixel unshuffle is a place where a convolution reads: one of stride 2 with the same weight.
# cheapest: 662 Mflop, 1 pass
# gradient: 1330 Mflop
graph pixel_unshuffle {
  %x = input f32[4,16,96,96]
  %w = param f32[64,64,3,3]
  %b = param f32[64]
  %p = reshape(%x) shape=[4,16,48,2,48,2]
  %q = permute(%p) order=[0,1,3,5,2,4]
  %u = reshape(%q) shape=[4,64,48,48]
  %y = conv(%u, %w, %b) padding=[1,1]
  return %y
}
