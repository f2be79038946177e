# batch norm, pixel shuffle, 1x1 to 128
# cheapest: 38.19 Mflop, 3 passes
graph drawn_3 {
  %x = input f32[4,16,48,48]
  %v1 = param f32[16]
  %positive_1 = param f32[16]
  %v2 = param f32[16]
  %v3 = param f32[16]
  %v4 = batch_norm(%x, %v1, %positive_1, %v2, %v3)
  %v5 = reshape(%v4) shape=[-1,4,2,2,48,48]
  %v6 = permute(%v5) order=[0,1,4,2,5,3]
  %v7 = reshape(%v6) shape=[-1,4,96,96]
  %v8 = param f32[128,4,1,1]
  %v9 = conv(%v7, %v8) padding=[0,0]
  return %v9
}
