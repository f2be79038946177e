# [1x1 to 32, 3x3 to 4], pixel shuffle, average 2
# cheapest: 20.9 Mflop, 4 passes
graph drawn_14 {
  %x = input f32[4,16,48,48]
  %v1 = param f32[32,16,1,1]
  %v2 = param f32[32]
  %v3 = conv(%x, %v1, %v2) padding=[0,0]
  %v4 = param f32[4,16,3,3]
  %v5 = param f32[4]
  %v6 = conv(%x, %v4, %v5) padding=[1,1]
  %v7 = concat(%v3, %v6) axis=1
  %v8 = reshape(%v7) shape=[-1,9,2,2,48,48]
  %v9 = permute(%v8) order=[0,1,4,2,5,3]
  %v10 = reshape(%v9) shape=[-1,9,96,96]
  %v11 = avg_pool(%v10) kernel=[2,2]
  return %v11
}
