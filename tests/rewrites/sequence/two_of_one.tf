# A 3x3 that two heads of single pixels read, and nobody else: two 3x3 to few.
# cheapest: 127 Mflop, 2 passes
# gradient: 260 Mflop
graph two_of_one {
  %x = input f32[4,64,48,48]
  %a = param f32[128,64,3,3]
  %b = param f32[128]
  %v = param f32[8,128,1,1]
  %w = param f32[4,128,1,1]
  %y = conv(%x, %a, %b) padding=[1,1]
  %p = conv(%y, %v)
  %q = conv(%y, %w)
  return %p, %q
}
