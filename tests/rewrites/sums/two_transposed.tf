# ConvTranspose k4 s2 p1 + ConvTranspose k2 s2 of one input.
# cheapest: 149 Mflop, 1 pass
# gradient: 298 Mflop
graph two_transposed {
  %x = input f32[4,32,48,48]
  %w4 = param f32[32,16,4,4]
  %b4 = param f32[16]
  %w2 = param f32[32,16,2,2]
  %b2 = param f32[16]
  %a = conv_transpose(%x, %w4, %b4) stride=[2,2] padding=[1,1]
  %b = conv_transpose(%x, %w2, %b2) stride=[2,2]
  %z = add(%a, %b)
  return %z
}
