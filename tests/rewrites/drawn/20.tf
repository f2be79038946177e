# [3x3 to 32, 1x1 to 4], ConvT k4 to 4, average 2
# cheapest: 359.8 Mflop, 3 passes
graph drawn_20 {
  %x = input f32[4,64,48,48]
  %v1 = param f32[32,64,3,3]
  %v2 = conv(%x, %v1) padding=[1,1]
  %v3 = param f32[4,64,1,1]
  %v4 = conv(%x, %v3) padding=[0,0]
  %v5 = concat(%v2, %v4) axis=1
  %v6 = param f32[36,4,4,4]
  %v7 = conv_transpose(%v5, %v6) stride=[2,2] padding=[1,1]
  %v8 = avg_pool(%v7) kernel=[2,2]
  return %v8
}
