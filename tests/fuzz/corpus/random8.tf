graph random57 {
  %x = input f64[1,4,1,1,3]
  %w0 = param f64[4,6,2,1,1]
  %bias1 = param f64[6]
  %0 = conv_transpose(%x, %w0, %bias1) stride=[1,2,2] padding=[0,0,2] output_padding=[0,1,0]
  %weight2 = param f64[2,1]
  %shift3 = param f64[2,1]
  %1 = layer_norm(%0, %weight2, %shift3) normalized_shape=[2,1]
  %v4 = param f64[6,1,2,2,2]
  %g5 = param f64[6,1,1,1,1]
  %2 = weight_norm(%v4, %g5)
  %3 = conv_transpose(%1, %2) stride=[1,1,3] padding=[0,1,0] groups=6
  return %3, %0
}
