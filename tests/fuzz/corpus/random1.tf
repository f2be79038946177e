graph random8 {
  %x = input f32[3,5,6]
  %w0 = param f32[5,6,4]
  %bias1 = param f32[6]
  %0 = conv_transpose(%x, %w0, %bias1) stride=[3] padding=[3]
  %w2 = param f32[6,4,3]
  %s3 = param f32[]
  %1 = mul(%w2, %s3)
  %2 = conv_transpose(%0, %1) stride=[3] padding=[2] output_padding=[1]
  return %2
}
