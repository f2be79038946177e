# [1x1 to 4, 3x3 to 8], (1x1 to 8 + 1x1 to 8 + 1x1 to 8)
# cheapest: 20.9 Mflop, 1 pass
graph drawn_1 {
  %x = input f32[4,16,48,48]
  %v1 = param f32[4,16,1,1]
  %v2 = conv(%x, %v1) padding=[0,0]
  %v3 = param f32[8,16,3,3]
  %v4 = param f32[8]
  %v5 = conv(%x, %v3, %v4) padding=[1,1]
  %v6 = concat(%v2, %v5) axis=1
  %v7 = param f32[8,12,1,1]
  %v8 = conv(%v6, %v7) padding=[0,0]
  %v9 = param f32[8,12,1,1]
  %v10 = param f32[8]
  %v11 = conv(%v6, %v9, %v10) padding=[0,0]
  %v12 = param f32[8,12,1,1]
  %v13 = conv(%v6, %v12) padding=[0,0]
  %v14 = sub(%v8, %v11)
  %v15 = add(%v14, %v13)
  return %v15
}
