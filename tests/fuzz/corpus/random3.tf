graph random22 {
  %x = input bf16[1,5,1,4,1]
  %0 = clamp(%x) lo=0.1691306369238359 hi=0.17119215524762554
  %w0 = param bf16[5,1,2,3,3]
  %bias1 = param bf16[5]
  %1 = conv_transpose(%0, %w0, %bias1) stride=[2,2,1] padding=[1,2,1] output_padding=[1,0,0] groups=5
  %2 = identity(%1)
  %3 = concat(%1, %2) axis=3
  %4 = avg_pool(%3) stride=[1,1,1] kernel=[1,2,1] ceil_mode=1
  %w2 = param bf16[5,2,1,1,2]
  %5 = conv_transpose(%4, %w2) stride=[1,1,2]
  %6 = sum(%5) dims=[0,1,4] keepdim=1
  %7 = sign(%6)
  %8 = concat(%6, %7) axis=4
  return %8
}
