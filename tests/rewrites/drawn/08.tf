# nearest x 2, ConvT k2 to 4, 1x1 to 8
# cheapest: 37.99 Mflop, 1 pass
graph drawn_8 {
  %x = input f32[4,16,48,48]
  %v1 = upsample(%x) scale=[2,2]
  %v2 = param f32[16,4,2,2]
  %v3 = conv_transpose(%v1, %v2) stride=[2,2] padding=[0,0]
  %v4 = param f32[8,4,1,1]
  %v5 = conv(%v3, %v4) padding=[0,0]
  return %v5
}
