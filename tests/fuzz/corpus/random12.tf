graph random85 {
  %x = input f64[2,4,5,1]
  %w0 = param f64[4,4,3,4]
  %0 = conv_transpose(%x, %w0) stride=[3,2] padding=[0,1]
  %1 = relu(%0)
  %2 = softmax(%1) dims=[1]
  %3 = slice(%2) start=-11 end=15 step=2 axis=2
  %4 = leaky_relu(%3) negative_slope=-0.3528286499747405
  return %4
}
