graph random43 {
  %x = input f16[1,6,2]
  %0 = upsample(%x) scale=[3]
  %w0 = param f16[6,3,4]
  %1 = conv_transpose(%0, %w0) padding=[4] groups=2
  %w1 = param f16[6,4,3]
  %bias2 = param f16[4]
  %2 = conv_transpose(%1, %w1, %bias2) stride=[2] padding=[1] output_padding=[1]
  %3 = sub(%2, -1.4227097080395672)
  %w3 = param f16[2,4,2]
  %s4 = param f16[]
  %4 = mul(%w3, %s4)
  %bias5 = param f16[2]
  %5 = conv(%3, %4, %bias5)
  return %5
}
