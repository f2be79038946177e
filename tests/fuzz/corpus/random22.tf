graph random155 {
  %x = input f16[3,3,3,5]
  %0 = leaky_relu(%x) negative_slope=-0.49433210797956717
  %v0 = param f16[3,4,3,2]
  %g1 = param f16[3,1,1,1]
  %1 = weight_norm(%v0, %g1)
  %bias2 = param f16[4]
  %2 = conv_transpose(%0, %1, %bias2) stride=[2,2] output_padding=[0,1]
  %w3 = param f16[4,6,4,5]
  %3 = conv_transpose(%2, %w3) stride=[3,1] padding=[2,0]
  %4 = softmax(%3) dims=[1]
  %5 = div(%4, 0.7036148356500131)
  return %5
}
