graph random134 {
  %x = input bf16[3,2,5,1,3]
  %0 = upsample(%x) scale=[3,1,3]
  %1 = softmax(%0) dims=[1]
  %w0 = param bf16[2,3,2,3,3]
  %2 = conv_transpose(%1, %w0) stride=[3,2,3] padding=[0,1,3] output_padding=[0,0,1]
  return %2
}
