graph f4 {
  %x = input f32[16,16,32,128,128]
  %w = param f32[16,64,3,3,3]
  %b = param f32[64]
  %y = conv_transpose(%x, %w, %b) padding=[1,1,1]
  %m = mean(%y) dims=[2] keepdim=1
  return %m
}
