graph random50 {
  %x = input bf16[1,2,1,5,4]
  %0 = upsample(%x) scale=[3,3,2]
  %weight0 = param bf16[2]
  %shift1 = param bf16[2]
  %1 = group_norm(%0, %weight0, %shift1) eps=0.001 num_groups=1
  %2 = softmax(%1) dims=[3,4]
  %w2 = param bf16[2,4,3,3,2]
  %bias3 = param bf16[4]
  %3 = conv_transpose(%2, %w2, %bias3) stride=[3,2,1] padding=[3,3,3] output_padding=[1,0,0]
  return %3
}
