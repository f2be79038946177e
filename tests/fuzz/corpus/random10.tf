graph random71 {
  %x = input f16[2,3,7]
  %w0 = param f16[4,3,2]
  %bias1 = param f16[4]
  %0 = conv(%x, %w0, %bias1) padding=[1]
  %slope2 = param f16[1]
  %1 = reshape(%slope2) shape=[1,1]
  %2 = prelu(%0, %1)
  %weight3 = param f16[4,8]
  %shift4 = param f16[4,8]
  %3 = layer_norm(%2, %weight3, %shift4) normalized_shape=[4,8]
  %w5 = param f16[4,3,2]
  %bias6 = param f16[3]
  %4 = conv_transpose(%3, %w5, %bias6)
  return %4
}
