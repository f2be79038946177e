# A 1x1, a 3x3 and the global mean, interpolated to the image, concatenated, 1x1: one 3x3 and a bias an image.
# cheapest: 169 Mflop, 4 passes
graph global_branch {
  %x = input f32[4,64,48,48]
  %a = param f32[64,64,1,1]
  %b = param f32[64,64,3,3]
  %c = param f32[64,64,1,1]
  %d = param f32[16,192,1,1]
  %p = conv(%x, %a)
  %q = conv(%x, %b) padding=[1,1]
  %m = mean(%x) dims=[2,3] keepdim=1
  %k = conv(%m, %c)
  %e = interpolate(%k) output_size=[48,48]
  %t = concat(%p, %q, %e) axis=1
  %z = conv(%t, %d)
  return %z
}
