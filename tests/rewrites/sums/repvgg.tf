# RepVGG: 3x3, 1x1 and identity with a batch norm each, then ReLU.
# cheapest: 664 Mflop, 1 pass
# gradient: 1999 Mflop
graph repvgg {
  %x = input f32[4,64,48,48]
  %w3 = param f32[64,64,3,3]
  %m3 = param f32[64]
  %positive_v3 = param f32[64]
  %g3 = param f32[64]
  %b3 = param f32[64]
  %w1 = param f32[64,64,1,1]
  %m1 = param f32[64]
  %positive_v1 = param f32[64]
  %g1 = param f32[64]
  %b1 = param f32[64]
  %m0 = param f32[64]
  %positive_v0 = param f32[64]
  %g0 = param f32[64]
  %b0 = param f32[64]
  %y3 = conv(%x, %w3) padding=[1,1]
  %n3 = batch_norm(%y3, %m3, %positive_v3, %g3, %b3)
  %y1 = conv(%x, %w1)
  %n1 = batch_norm(%y1, %m1, %positive_v1, %g1, %b1)
  %n0 = batch_norm(%x, %m0, %positive_v0, %g0, %b0)
  %s = add(%n3, %n1)
  %t = add(%s, %n0)
  %z = relu(%t)
  return %z
}
