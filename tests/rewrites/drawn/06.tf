# pixel shuffle, [1x1 to 4, 1x1 to 32]
# cheapest: 44.02 Mflop, 2 passes
graph drawn_6 {
  %x = input f32[4,64,48,48]
  %v1 = reshape(%x) shape=[-1,16,2,2,48,48]
  %v2 = permute(%v1) order=[0,1,4,2,5,3]
  %v3 = reshape(%v2) shape=[-1,16,96,96]
  %v4 = param f32[4,16,1,1]
  %v5 = param f32[4]
  %v6 = conv(%v3, %v4, %v5) padding=[0,0]
  %v7 = param f32[32,16,1,1]
  %v8 = conv(%v3, %v7) padding=[0,0]
  %v9 = concat(%v6, %v8) axis=1
  return %v9
}
