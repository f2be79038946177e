# pixel shuffle, batch norm, mean
# cheapest: 0.1487 Mflop, 1 pass
graph drawn_18 {
  %x = input f32[4,16,48,48]
  %v1 = reshape(%x) shape=[-1,4,2,2,48,48]
  %v2 = permute(%v1) order=[0,1,4,2,5,3]
  %v3 = reshape(%v2) shape=[-1,4,96,96]
  %v4 = param f32[4]
  %positive_4 = param f32[4]
  %v5 = param f32[4]
  %v6 = param f32[4]
  %v7 = batch_norm(%v3, %v4, %positive_4, %v5, %v6)
  %v8 = mean(%v7) dims=[2,3]
  return %v8
}
