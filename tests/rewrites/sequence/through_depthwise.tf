# 1x1 to 128, depthwise 3x3, 1x1 to 16: all three are one, no two are.
# cheapest: 168 Mflop, 1 pass
graph through_depthwise {
  %x = input f32[4,64,48,48]
  %u = param f32[128,64,1,1]
  %v = param f32[128,1,3,3]
  %w = param f32[16,128,1,1]
  %y = conv(%x, %u)
  %z = conv(%y, %v) padding=[1,1] groups=128
  %o = conv(%z, %w)
  return %o
}
