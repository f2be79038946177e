# A plain transposed convolution with an asymmetric kernel.
graph seed_d {
  %x = input f32[64,64,128,256]
  %weight = param f32[64,128,3,5]
  %y = conv_transpose(%x, %weight)
  return %y
}
