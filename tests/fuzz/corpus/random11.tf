graph random78 {
  %x = input bf16[1,4,2,1]
  %w0 = param bf16[4,3,2,5]
  %0 = conv_transpose(%x, %w0) stride=[3,1] padding=[4,0] output_padding=[3,0] dilation=[4,1] groups=2
  %1 = erf(%0)
  %2 = selu(%1)
  %3 = slice(%2) start=-2 end=3 step=2 axis=2
  return %3
}
