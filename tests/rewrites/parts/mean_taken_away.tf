# 3x3, minus its mean over the image, 1x1: one 3x3, and a bias an image.
# cheapest: 85.1 Mflop, 2 passes
# gradient: 180 Mflop
graph mean_taken_away {
  %x = input f32[4,64,48,48]
  %a = param f32[128,64,3,3]
  %b = param f32[128]
  %v = param f32[8,128,1,1]
  %y = conv(%x, %a, %b) padding=[1,1]
  %m = mean(%y) dims=[2,3] keepdim=1
  %d = sub(%y, %m)
  %z = conv(%d, %v)
  return %z
}
