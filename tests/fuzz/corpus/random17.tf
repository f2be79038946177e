graph random120 {
  %x = input f32[2,5,2]
  %0 = elu(%x) alpha=0.7255993226495443
  %1 = softplus(%0) beta=0.8136789815715351
  %2 = cos(%1)
  %w0 = param f32[2,5,2]
  %bias1 = param f32[2]
  %3 = conv(%2, %w0, %bias1) stride=[3]
  %w2 = param f32[2,6,2]
  %bias3 = param f32[6]
  %4 = conv_transpose(%3, %w2, %bias3) stride=[2] padding=[1] dilation=[3]
  %5 = sign(%4)
  %6 = var(%5) dims=[2] keepdim=1 correction=0
  %7 = sub(%5, %6)
  %8 = mean(%7) dims=[2] keepdim=1
  %9 = silu(%8)
  return %9, %4
}
