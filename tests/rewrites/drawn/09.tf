# [1x1 to 4, 1x1 to 4], 3x3 to 32, 1x1 to 64
# cheapest: 84.22 Mflop, 3 passes
graph drawn_9 {
  %x = input f32[4,32,48,48]
  %v1 = param f32[4,32,1,1]
  %v2 = conv(%x, %v1) padding=[0,0]
  %v3 = param f32[4,32,1,1]
  %v4 = conv(%x, %v3) padding=[0,0]
  %v5 = concat(%v2, %v4) axis=1
  %v6 = param f32[32,8,3,3]
  %v7 = conv(%v5, %v6) padding=[1,1]
  %v8 = param f32[64,32,1,1]
  %v9 = conv(%v7, %v8) padding=[0,0]
  return %v9
}
