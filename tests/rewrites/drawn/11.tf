# pixel shuffle, (3x3 to 8 + 1x1 to 8 + 1x1 to 8), bilinear x 1/2, ConvT k2 to 64
# cheapest: 56.58 Mflop, 3 passes
graph drawn_11 {
  %x = input f32[4,32,48,48]
  %v1 = reshape(%x) shape=[-1,8,2,2,48,48]
  %v2 = permute(%v1) order=[0,1,4,2,5,3]
  %v3 = reshape(%v2) shape=[-1,8,96,96]
  %v4 = param f32[8,8,3,3]
  %v5 = conv(%v3, %v4) padding=[1,1]
  %v6 = param f32[8,8,1,1]
  %v7 = param f32[8]
  %v8 = conv(%v3, %v6, %v7) padding=[0,0]
  %v9 = param f32[8,8,1,1]
  %v10 = param f32[8]
  %v11 = conv(%v3, %v9, %v10) padding=[0,0]
  %v12 = add(%v5, %v8)
  %v13 = sub(%v12, %v11)
  %v14 = interpolate(%v13) scale=[0.5,0.5]
  %v15 = param f32[8,64,2,2]
  %v16 = conv_transpose(%v14, %v15) stride=[2,2] padding=[0,0]
  return %v16
}
