# Behind a concatenation of a ConvT and a skip connection, 1x1.
# cheapest: 117.5 Mflop, 2 passes
graph skip_of_transposed {
  %x = input f32[4,64,48,48]
  %s = input f32[4,64,96,96]
  %u = param f32[64,64,2,2]
  %w = param f32[8,128,1,1]
  %b = param f32[8]
  %y = conv_transpose(%x, %u) stride=[2,2]
  %z = concat(%y, %s) axis=1
  %o = conv(%z, %w, %b)
  return %o
}
