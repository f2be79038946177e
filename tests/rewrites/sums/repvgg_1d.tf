# Taps 5, 3 and 1 of a signal with a batch norm each, ReLU: one convolution.
# cheapest: 6.6 Mflop, 1 pass
graph repvgg_1d {
  %x = input f32[4,32,160]
  %w5 = param f32[32,32,5]
  %w3 = param f32[32,32,3]
  %w1 = param f32[32,32,1]
  %m = param f32[32]
  %positive_v = param f32[32]
  %g = param f32[32]
  %b = param f32[32]
  %c5 = conv(%x, %w5) padding=[2]
  %n5 = batch_norm(%c5, %m, %positive_v, %g, %b)
  %c3 = conv(%x, %w3) padding=[1]
  %n3 = batch_norm(%c3, %m, %positive_v, %g, %b)
  %c1 = conv(%x, %w1)
  %n1 = batch_norm(%c1, %m, %positive_v, %g, %b)
  %s = add(%n5, %n3)
  %t = add(%s, %n1)
  %z = relu(%t)
  return %z
}
