# A depthwise convolution, then 1x1 to few channels: of less work apart, of less memory together.
# cheapest: 36 Mflop, 1 pass
# gradient: 62.3 Mflop
graph separable_to_few {
  %x = input f32[4,64,48,48]
  %w1 = param f32[64,1,3,3]
  %w2 = param f32[3,64,1,1]
  %b2 = param f32[3]
  %y = conv(%x, %w1) padding=[1,1] groups=64
  %z = conv(%y, %w2, %b2)
  return %z
}
