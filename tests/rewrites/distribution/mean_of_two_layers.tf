# The mean of two convolutions with padding, one behind the other, which are not one: box sums of the input, and small products.
# cheapest: 2.7 Mflop, 1 pass
# gradient: 6.6 Mflop
graph mean_of_two_layers {
  %x = input f32[4,64,48,48]
  %w = param f32[64,32,4,4]
  %b = param f32[32]
  %v = param f32[32,32,3,3]
  %c = param f32[32]
  %y = conv_transpose(%x, %w, %b) stride=[2,2] padding=[1,1]
  %z = conv(%y, %v, %c) padding=[1,1]
  %m = mean(%z) dims=[2,3]
  return %m
}
