# Two convolutions of one input, concatenated: one that reads it once.
# cheapest: 332 Mflop, 1 pass
# gradient: 664 Mflop
graph heads {
  %x = input f32[4,64,48,48]
  %w1 = param f32[24,64,3,3]
  %b1 = param f32[24]
  %w2 = param f32[8,64,3,3]
  %b2 = param f32[8]
  %a = conv(%x, %w1, %b1) padding=[1,1]
  %b = conv(%x, %w2, %b2) padding=[1,1]
  %z = concat(%a, %b) axis=1
  return %z
}
