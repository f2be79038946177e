graph random36 {
  %x = input f32[3,2,1,1,2]
  %w0 = param f32[2,2,2,1,3]
  %bias1 = param f32[2]
  %0 = conv_transpose(%x, %w0, %bias1) stride=[3,2,3] padding=[0,0,3] output_padding=[2,1,1]
  %1 = softmax(%0) dims=[3,4]
  %w2 = param f32[2,4,3,3,2]
  %bias3 = param f32[4]
  %2 = conv_transpose(%1, %w2, %bias3) stride=[3,2,1] padding=[3,2,0] output_padding=[1,0,0]
  %3 = hardtanh(%2) lo=0.18797601215001714 hi=0.6727521291043354
  %4 = softmax(%3) dims=[1]
  return %4
}
