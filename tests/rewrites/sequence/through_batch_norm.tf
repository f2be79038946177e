# 1x1, batch norm by running statistics, ConvTranspose with padding: the shift between becomes a bias that differs at borders.
# cheapest: 80 Mflop, 1 pass
# gradient: 155 Mflop
graph through_batch_norm {
  %x = input f32[4,64,48,48]
  %w1 = param f32[256,64,1,1]
  %b1 = param f32[256]
  %mean = param f32[256]
  %positive_var = param f32[256]
  %gamma = param f32[256]
  %beta = param f32[256]
  %w2 = param f32[256,4,4,4]
  %y = conv(%x, %w1, %b1)
  %n = batch_norm(%y, %mean, %positive_var, %gamma, %beta)
  %z = conv_transpose(%n, %w2) stride=[2,2] padding=[1,1]
  return %z
}
