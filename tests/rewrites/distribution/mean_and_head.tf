# A 3x3 whose mean and whose head are wanted: a 3x3 to few, and box sums.
# cheapest: 84.5 Mflop, 2 passes
# gradient: 170 Mflop
graph mean_and_head {
  %x = input f32[4,64,48,48]
  %a = param f32[64,64,3,3]
  %b = param f32[64]
  %v = param f32[8,64,1,1]
  %y = conv(%x, %a, %b) padding=[1,1]
  %p = conv(%y, %v)
  %m = mean(%y) dims=[2,3]
  return %p, %m
}
