# The same, each with its activation.
# cheapest: 332 Mflop, 1 pass
# gradient: 997 Mflop
graph heads_with_relu {
  %x = input f32[4,64,48,48]
  %w1 = param f32[24,64,3,3]
  %b1 = param f32[24]
  %w2 = param f32[8,64,3,3]
  %a = conv(%x, %w1, %b1) padding=[1,1]
  %b = conv(%x, %w2) padding=[1,1]
  %f = relu(%a)
  %g = relu(%b)
  %z = concat(%f, %g) axis=1
  return %z
}
