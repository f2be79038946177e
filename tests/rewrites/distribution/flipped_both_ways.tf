# The mean of a convolution of an image flipped in four ways and flipped back: no convolution is left.
# cheapest: 1.1 Mflop, 1 pass
graph flipped_both_ways {
  %x = input f32[4,64,48,48]
  %w = param f32[64,64,3,3]
  %y0 = conv(%x, %w) padding=[1,1]
  %x1 = flip(%x) dims=[2]
  %c1 = conv(%x1, %w) padding=[1,1]
  %y1 = flip(%c1) dims=[2]
  %x2 = flip(%x) dims=[3]
  %c2 = conv(%x2, %w) padding=[1,1]
  %y2 = flip(%c2) dims=[3]
  %x3 = flip(%x) dims=[2,3]
  %c3 = conv(%x3, %w) padding=[1,1]
  %y3 = flip(%c3) dims=[2,3]
  %s1 = add(%y0, %y1)
  %s2 = add(%s1, %y2)
  %s3 = add(%s2, %y3)
  %h = mul(%s3, 0.25)
  %o = mean(%h) dims=[2,3]
  return %o
}
