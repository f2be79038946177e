graph random99 {
  %x = input f16[1,1,4,5,5]
  %w0 = param f16[1,2,2,2,1]
  %0 = conv_transpose(%x, %w0) stride=[1,3,1] padding=[2,4,0] output_padding=[0,0,1] dilation=[1,1,2]
  %w1 = param f16[2,3,3,2,3]
  %bias2 = param f16[3]
  %1 = conv_transpose(%0, %w1, %bias2) stride=[1,2,2] padding=[1,4,3] output_padding=[0,1,0]
  %2 = layer_norm(%1) eps=0.1 normalized_shape=[5,7]
  %3 = square(%2)
  %4 = add(%3, 0.5)
  %5 = sqrt(%4)
  %6 = add(%5, %2)
  %w3 = param f16[3,4,2,3,1]
  %7 = conv_transpose(%6, %w3) stride=[1,3,2] output_padding=[0,2,1]
  %8 = greater(%7, 0)
  %9 = mul(%7, 0.33515868566757845)
  %10 = select(%8, %7, %9)
  %11 = add(%10, %7)
  %w4 = param f16[4,1,2,2,3]
  %bias5 = param f16[1]
  %12 = conv_transpose(%11, %w4, %bias5) stride=[3,1,3] padding=[0,4,0] output_padding=[2,0,2]
  return %12
}
