# Three in a row, of which the last is thin: the product of the last two weights first.
# cheapest: 86.2 Mflop, 1 pass
graph narrowing_late {
  %x = input f32[4,64,48,48]
  %w1 = param f32[128,64,1,1]
  %w2 = param f32[128,128,3,3]
  %w3 = param f32[8,128,1,1]
  %y = conv(%x, %w1)
  %z = conv(%y, %w2) padding=[1,1]
  %o = conv(%z, %w3)
  return %o
}
