# Two 3x3 with padding: the second reads zeros where the first, extended, is not zero. They stay two.
# cheapest: 1330 Mflop, 2 passes
# gradient: 3320 Mflop
graph borders_that_differ {
  %x = input f32[4,64,48,48]
  %w1 = param f32[64,64,3,3]
  %w2 = param f32[64,64,3,3]
  %y = conv(%x, %w1) padding=[1,1]
  %z = conv(%y, %w2) padding=[1,1]
  return %z
}
