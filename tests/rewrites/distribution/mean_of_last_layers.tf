# A mean goes through both layers; as one they would need the product of their weights.
# cheapest: 2.5 Mflop, 1 pass
graph mean_of_last_layers {
  %x = input f32[4,64,48,48]
  %w1 = param f32[64,256,2,2]
  %b1 = param f32[256]
  %w2 = param f32[128,256,1,1]
  %y = conv_transpose(%x, %w1, %b1) stride=[2,2]
  %z = conv(%y, %w2)
  %m = mean(%z) dims=[2,3]
  return %m
}
