# 1x1 to 64, 1x1 to 4, [1x1 to 4, 1x1 to 8]
# cheapest: 3.678 Mflop, 1 pass
graph drawn_4 {
  %x = input f32[4,16,48,48]
  %v1 = param f32[64,16,1,1]
  %v2 = param f32[64]
  %v3 = conv(%x, %v1, %v2) padding=[0,0]
  %v4 = param f32[4,64,1,1]
  %v5 = conv(%v3, %v4) padding=[0,0]
  %v6 = param f32[4,4,1,1]
  %v7 = conv(%v5, %v6) padding=[0,0]
  %v8 = param f32[8,4,1,1]
  %v9 = conv(%v5, %v8) padding=[0,0]
  %v10 = concat(%v7, %v9) axis=1
  return %v10
}
