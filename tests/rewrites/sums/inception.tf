# A 1x1, a 3x3 and a 1x1 of an average pool, concatenated, 1x1 to few channels: one 3x3.
# cheapest: 83.3 Mflop, 1 pass
graph inception {
  %x = input f32[4,64,48,48]
  %u = param f32[16,64,1,1]
  %v = param f32[16,64,3,3]
  %w = param f32[16,64,1,1]
  %a = param f32[16]
  %t = param f32[8,48,1,1]
  %b = param f32[8]
  %y = conv(%x, %u)
  %z = conv(%x, %v) padding=[1,1]
  %m = avg_pool(%x) kernel=[3,3] stride=[1,1] padding=[1,1]
  %p = conv(%m, %w, %a)
  %c = concat(%y, %z, %p) axis=1
  %o = conv(%c, %t, %b)
  return %o
}
