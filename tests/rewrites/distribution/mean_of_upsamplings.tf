# The mean of ConvT(x) + 1x1(nearest x2 of x): both collapse.
# cheapest: 4 Mflop, 1 pass
# gradient: 4.1 Mflop
graph mean_of_upsamplings {
  %x = input f32[4,64,48,48]
  %w = param f32[64,128,4,4]
  %b = param f32[128]
  %v = param f32[128,64,1,1]
  %c = param f32[128]
  %y = conv_transpose(%x, %w, %b) stride=[2,2] padding=[1,1]
  %u = upsample(%x) scale=[2,2]
  %p = conv(%u, %v, %c)
  %s = add(%y, %p)
  %z = mean(%s) dims=[2,3]
  return %z
}
