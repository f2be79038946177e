# batch norm, ConvT k2 to 32, batch norm
# cheapest: 77.69 Mflop, 1 pass
graph drawn_12 {
  %x = input f32[4,32,48,48]
  %v1 = param f32[32]
  %positive_1 = param f32[32]
  %v2 = param f32[32]
  %v3 = param f32[32]
  %v4 = batch_norm(%x, %v1, %positive_1, %v2, %v3)
  %v5 = param f32[32,32,2,2]
  %v6 = conv_transpose(%v4, %v5) stride=[2,2] padding=[0,0]
  %v7 = param f32[32]
  %positive_7 = param f32[32]
  %v8 = param f32[32]
  %v9 = param f32[32]
  %v10 = batch_norm(%v6, %v7, %positive_7, %v8, %v9)
  return %v10
}
