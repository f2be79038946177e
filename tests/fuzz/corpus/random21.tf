graph random148 {
  %x = input f32[3,2,7,6]
  %0 = relu(%x)
  %w0 = param f32[2,6,4,3]
  %s1 = param f32[]
  %1 = mul(%w0, %s1)
  %bias2 = param f32[6]
  %2 = conv_transpose(%0, %1, %bias2) stride=[2,1]
  %3 = upsample(%2) scale=[1,2]
  return %3, %2
}
