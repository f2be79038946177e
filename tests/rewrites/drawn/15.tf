# 1x1 to 8, ConvT k4 to 64, mean
# cheapest: 0.3065 Mflop, 1 pass
graph drawn_15 {
  %x = input f32[4,16,48,48]
  %v1 = param f32[8,16,1,1]
  %v2 = param f32[8]
  %v3 = conv(%x, %v1, %v2) padding=[0,0]
  %v4 = param f32[8,64,4,4]
  %v5 = conv_transpose(%v3, %v4) stride=[2,2] padding=[1,1]
  %v6 = mean(%v5) dims=[2,3]
  return %v6
}
