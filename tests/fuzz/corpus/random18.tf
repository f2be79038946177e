graph random127 {
  %x = input f16[1,5,7]
  %0 = sigmoid(%x)
  %w0 = param f16[5,4,2]
  %bias1 = param f16[4]
  %1 = conv_transpose(%0, %w0, %bias1) stride=[2] padding=[3] output_padding=[1]
  %v2 = param f16[4,3,5]
  %g3 = param f16[4,1,1]
  %2 = weight_norm(%v2, %g3)
  %bias4 = param f16[3]
  %3 = conv_transpose(%1, %2, %bias4) stride=[3]
  %4 = pad(%3) start=[0,0,2] end=[0,0,0]
  %5 = div(%4, 1.5616108216518994)
  %w5 = param f16[3,4,1]
  %bias6 = param f16[4]
  %6 = conv_transpose(%5, %w5, %bias6) padding=[3]
  %7 = sigmoid(%6)
  %8 = adaptive_max_pool(%7) output_size=[1]
  return %8
}
