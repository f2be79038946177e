# 1x1 to 128, [1x1 to 32, 1x1 to 4]
# cheapest: 43.62 Mflop, 1 pass
graph drawn_19 {
  %x = input f32[4,64,48,48]
  %v1 = param f32[128,64,1,1]
  %v2 = param f32[128]
  %v3 = conv(%x, %v1, %v2) padding=[0,0]
  %v4 = param f32[32,128,1,1]
  %v5 = conv(%v3, %v4) padding=[0,0]
  %v6 = param f32[4,128,1,1]
  %v7 = param f32[4]
  %v8 = conv(%v3, %v6, %v7) padding=[0,0]
  %v9 = concat(%v5, %v8) axis=1
  return %v9
}
