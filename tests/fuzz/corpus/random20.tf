graph random141 {
  %x = input f64[2,1,3]
  %w0 = param f64[2,1,2]
  %bias1 = param f64[2]
  %0 = conv(%x, %w0, %bias1) stride=[3]
  %w2 = param f64[2,6,2]
  %bias3 = param f64[6]
  %1 = conv_transpose(%0, %w2, %bias3) stride=[2] padding=[1] dilation=[3]
  %2 = greater_equal(%1, 0)
  %3 = mul(%1, 0.10878838823295212)
  %4 = select(%2, %1, %3)
  %5 = upsample(%4) scale=[1]
  %w4 = param f64[6,2,5]
  %bias5 = param f64[2]
  %6 = conv_transpose(%5, %w4, %bias5) stride=[3] output_padding=[2]
  %7 = adaptive_max_pool(%6) output_size=[1]
  return %7
}
