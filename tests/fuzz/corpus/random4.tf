graph random29 {
  %x = input f64[2,5,2,3]
  %w0 = param f64[5,1,4,3]
  %s1 = param f64[]
  %0 = mul(%w0, %s1)
  %1 = conv_transpose(%x, %0) stride=[1,2] padding=[2,3] output_padding=[0,1]
  %2 = sum(%1) dims=[2,3]
  %3 = relu(%2)
  return %3
}
