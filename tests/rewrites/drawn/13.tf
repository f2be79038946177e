# ConvT k2 to 64, ConvT k2 to 4, 3x3 to 4
# cheapest: 84.62 Mflop, 1 pass
graph drawn_13 {
  %x = input f32[4,32,48,48]
  %v1 = param f32[32,64,2,2]
  %v2 = conv_transpose(%x, %v1) stride=[2,2] padding=[0,0]
  %v3 = param f32[64,4,2,2]
  %v4 = conv_transpose(%v2, %v3) stride=[2,2] padding=[0,0]
  %v5 = param f32[4,4,3,3]
  %v6 = conv(%v4, %v5) padding=[1,1]
  return %v6
}
