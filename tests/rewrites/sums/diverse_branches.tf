# 3x3, 1x1, 1x1 then 3x3, 1x1 then an average, with batch norms (a diverse-branch block), then ReLU: one 3x3.
# cheapest: 672 Mflop, 1 pass
graph diverse_branches {
  %x = input f32[4,64,48,48]
  %w1 = param f32[64,64,3,3]
  %w2 = param f32[64,64,1,1]
  %w3 = param f32[64,64,1,1]
  %w4 = param f32[64,64,3,3]
  %w5 = param f32[64,64,1,1]
  %m = param f32[64]
  %positive_v = param f32[64]
  %g = param f32[64]
  %b = param f32[64]
  %c1 = conv(%x, %w1) padding=[1,1]
  %n1 = batch_norm(%c1, %m, %positive_v, %g, %b)
  %c2 = conv(%x, %w2)
  %n2 = batch_norm(%c2, %m, %positive_v, %g, %b)
  %c3 = conv(%x, %w3)
  %n3 = batch_norm(%c3, %m, %positive_v, %g, %b)
  %c4 = conv(%n3, %w4) padding=[1,1]
  %n4 = batch_norm(%c4, %m, %positive_v, %g, %b)
  %c5 = conv(%x, %w5)
  %n5 = batch_norm(%c5, %m, %positive_v, %g, %b)
  %p5 = avg_pool(%n5) kernel=[3,3] stride=[1,1] padding=[1,1]
  %n6 = batch_norm(%p5, %m, %positive_v, %g, %b)
  %s1 = add(%n1, %n2)
  %s2 = add(%s1, %n4)
  %s3 = add(%s2, %n6)
  %z = relu(%s3)
  return %z
}
