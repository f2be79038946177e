graph random106 {
  %x = input bf16[3,1,5]
  %0 = tanh(%x)
  %1 = exp(%0)
  %w0 = param bf16[5,1,1]
  %bias1 = param bf16[5]
  %2 = conv(%1, %w0, %bias1) stride=[2] padding=[1] dilation=[3]
  %mean2 = param bf16[5]
  %positive_var3 = param bf16[5]
  %weight4 = param bf16[5]
  %shift5 = param bf16[5]
  %3 = batch_norm(%2, %mean2, %positive_var3, %weight4, %shift5) eps=0.001
  %4 = expand(%3) shape=[3,5,4]
  %5 = minimum(%4, %3)
  %v6 = param bf16[5,3,5]
  %g7 = param bf16[5,1,1]
  %6 = weight_norm(%v6, %g7)
  %bias8 = param bf16[3]
  %7 = conv_transpose(%5, %6, %bias8) stride=[3]
  return %7
}
