# 1x1, 3x3, 1x1 without padding between: one 3x3.
# cheapest: 43 Mflop, 1 pass
# gradient: 86.7 Mflop
graph three {
  %x = input f32[4,32,48,48]
  %w1 = param f32[64,32,1,1]
  %w2 = param f32[64,64,3,3]
  %w3 = param f32[8,64,1,1]
  %b1 = param f32[64]
  %b3 = param f32[8]
  %y = conv(%x, %w1, %b1)
  %z = conv(%y, %w2)
  %o = conv(%z, %w3, %b3)
  return %o
}
