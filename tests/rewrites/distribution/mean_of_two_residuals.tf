# The mean behind two residual blocks: box sums of their input.
# cheapest: 11.2 Mflop, 2 passes
# gradient: 30 Mflop
graph mean_of_two_residuals {
  %x = input f32[4,64,48,48]
  %a = param f32[64,64,3,3]
  %b = param f32[64]
  %v = param f32[64,64,3,3]
  %y = conv(%x, %a, %b) padding=[1,1]
  %s = add(%x, %y)
  %z = conv(%s, %v) padding=[1,1]
  %t = add(%s, %z)
  %m = mean(%t) dims=[2,3]
  return %m
}
