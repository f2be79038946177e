# conv(x) + conv(x flipped over the batch).
# cheapest: 1330 Mflop, 1 pass
# gradient: 2659 Mflop
graph flipped_batch {
  %x = input f32[4,64,48,48]
  %w = param f32[64,128,3,3]
  %b = param f32[128]
  %f = flip(%x) dims=[0]
  %y = conv_transpose(%x, %w, %b) padding=[1,1]
  %g = conv_transpose(%f, %w, %b) padding=[1,1]
  %z = add(%y, %g)
  return %z
}
