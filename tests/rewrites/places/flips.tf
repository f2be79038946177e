# Averaged with what the flipped image gives: flips around a convolution flip its taps, and both are one of both weights' sum.
# cheapest: 663 Mflop, 1 pass
graph flips {
  %x = input f32[4,64,48,48]
  %w = param f32[64,64,3,3]
  %b = param f32[64]
  %y = conv(%x, %w, %b) padding=[1,1]
  %f = flip(%x) dims=[3]
  %g = conv(%f, %w, %b) padding=[1,1]
  %h = flip(%g) dims=[3]
  %s = add(%y, %h)
  %z = mul(%s, 0.5)
  return %z
}
