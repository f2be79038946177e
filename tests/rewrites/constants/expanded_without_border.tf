# The same in front of a 1x1.
# cheapest: 29.6 Mflop, 2 passes
# gradient: 153 Mflop
graph expanded_without_border {
  %x = input f32[4,24,48,48]
  %e = input f32[4,40,1,1]
  %w = param f32[64,64,1,1]
  %b = param f32[64]
  %i = expand(%e) shape=[4,40,48,48]
  %c = concat(%x, %i) axis=1
  %z = conv(%c, %w, %b)
  return %z
}
