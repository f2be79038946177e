# pixel shuffle, [1x1 to 8, 3x3 to 8], (1x1 to 8 + 1x1 to 8), 3x3 to 8
# cheapest: 84.82 Mflop, 3 passes
graph drawn_16 {
  %x = input f32[4,32,48,48]
  %v1 = reshape(%x) shape=[-1,8,2,2,48,48]
  %v2 = permute(%v1) order=[0,1,4,2,5,3]
  %v3 = reshape(%v2) shape=[-1,8,96,96]
  %v4 = param f32[8,8,1,1]
  %v5 = param f32[8]
  %v6 = conv(%v3, %v4, %v5) padding=[0,0]
  %v7 = param f32[8,8,3,3]
  %v8 = conv(%v3, %v7) padding=[1,1]
  %v9 = concat(%v6, %v8) axis=1
  %v10 = param f32[8,16,1,1]
  %v11 = param f32[8]
  %v12 = conv(%v9, %v10, %v11) padding=[0,0]
  %v13 = param f32[8,16,1,1]
  %v14 = conv(%v9, %v13) padding=[0,0]
  %v15 = sub(%v12, %v14)
  %v16 = param f32[8,8,3,3]
  %v17 = param f32[8]
  %v18 = conv(%v15, %v16, %v17) padding=[1,1]
  return %v18
}
