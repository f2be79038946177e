# 1x1, an embedding added to each sample, 3x3: one 3x3, and the embedding by the weights that outputs meet.
# cheapest: 84.4 Mflop, 3 passes
# gradient: 170 Mflop
graph shift_of_samples {
  %x = input f32[4,64,48,48]
  %e = input f32[4,128,1,1]
  %a = param f32[128,64,1,1]
  %b = param f32[128]
  %v = param f32[8,128,3,3]
  %y = conv(%x, %a, %b)
  %c = add(%y, %e)
  %z = conv(%c, %v) padding=[1,1]
  return %z
}
