graph random113 {
  %x = input f64[2,2,4]
  %w0 = param f64[2,5,1]
  %bias1 = param f64[5]
  %0 = conv_transpose(%x, %w0, %bias1) stride=[2] padding=[1] output_padding=[1]
  %mean2 = param f64[5]
  %positive_var3 = param f64[5]
  %weight4 = param f64[5]
  %shift5 = param f64[5]
  %1 = batch_norm(%0, %mean2, %positive_var3, %weight4, %shift5) eps=0.001
  %2 = expand(%1) shape=[2,5,6]
  %3 = sub(%2, %1)
  %v6 = param f64[5,3,5]
  %g7 = param f64[5,1,1]
  %4 = weight_norm(%v6, %g7)
  %bias8 = param f64[3]
  %5 = conv_transpose(%3, %4, %bias8) stride=[3]
  return %5
}
