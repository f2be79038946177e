graph random15 {
  %x = input f16[3,6,3,7]
  %w0 = param f16[1,6,1,3]
  %s1 = param f16[]
  %0 = mul(%w0, %s1)
  %1 = conv(%x, %0) stride=[1,3] padding=[2,2]
  %2 = flip(%1) dims=[1]
  %w2 = param f16[1,3,4,5]
  %bias3 = param f16[3]
  %3 = conv_transpose(%2, %w2, %bias3) stride=[1,3] padding=[4,0] output_padding=[0,1]
  %4 = softmax(%3) dims=[3]
  return %4
}
