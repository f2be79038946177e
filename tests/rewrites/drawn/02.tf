# 1x1 to 32, [3x3 to 8, 3x3 to 4]
# cheapest: 31.36 Mflop, 1 pass
graph drawn_2 {
  %x = input f32[4,16,48,48]
  %v1 = param f32[32,16,1,1]
  %v2 = conv(%x, %v1) padding=[0,0]
  %v3 = param f32[8,32,3,3]
  %v4 = param f32[8]
  %v5 = conv(%v2, %v3, %v4) padding=[1,1]
  %v6 = param f32[4,32,3,3]
  %v7 = conv(%v2, %v6) padding=[1,1]
  %v8 = concat(%v5, %v7) axis=1
  return %v8
}
