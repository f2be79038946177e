graph random162 {
  %x = input bf16[3,6,6,1]
  %v0 = param bf16[6,4,3,2]
  %g1 = param bf16[6,1,1,1]
  %0 = weight_norm(%v0, %g1)
  %bias2 = param bf16[4]
  %1 = conv_transpose(%x, %0, %bias2) stride=[2,2] output_padding=[0,1]
  %w3 = param bf16[4,6,4,5]
  %2 = conv_transpose(%1, %w3) stride=[3,1] padding=[2,0]
  %3 = softmax(%2) dims=[1]
  %4 = greater(%3, %3)
  return %4
}
