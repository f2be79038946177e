# [1x1 to 8, 3x3 to 32], [1x1 to 4, 1x1 to 32], batch norm, nearest x 2, mean
# cheapest: 1.357 Mflop, 1 pass
graph drawn_17 {
  %x = input f32[4,64,48,48]
  %v1 = param f32[8,64,1,1]
  %v2 = param f32[8]
  %v3 = conv(%x, %v1, %v2) padding=[0,0]
  %v4 = param f32[32,64,3,3]
  %v5 = conv(%x, %v4) padding=[1,1]
  %v6 = concat(%v3, %v5) axis=1
  %v7 = param f32[4,40,1,1]
  %v8 = param f32[4]
  %v9 = conv(%v6, %v7, %v8) padding=[0,0]
  %v10 = param f32[32,40,1,1]
  %v11 = param f32[32]
  %v12 = conv(%v6, %v10, %v11) padding=[0,0]
  %v13 = concat(%v9, %v12) axis=1
  %v14 = param f32[36]
  %positive_14 = param f32[36]
  %v15 = param f32[36]
  %v16 = param f32[36]
  %v17 = batch_norm(%v13, %v14, %positive_14, %v15, %v16)
  %v18 = upsample(%v17) scale=[2,2]
  %v19 = mean(%v18) dims=[2,3]
  return %v19
}
