# batch norm, 1x1 to 64, ConvT k4 to 4
# cheapest: 75.98 Mflop, 1 pass
graph drawn_5 {
  %x = input f32[4,64,48,48]
  %v1 = param f32[64]
  %positive_1 = param f32[64]
  %v2 = param f32[64]
  %v3 = param f32[64]
  %v4 = batch_norm(%x, %v1, %positive_1, %v2, %v3)
  %v5 = param f32[64,64,1,1]
  %v6 = conv(%v4, %v5) padding=[0,0]
  %v7 = param f32[64,4,4,4]
  %v8 = conv_transpose(%v6, %v7) stride=[2,2] padding=[1,1]
  return %v8
}
