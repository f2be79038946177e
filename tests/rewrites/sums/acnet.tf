# ACNet: 3x3 + 3x1 + 1x3 of one input.
# cheapest: 662 Mflop, 1 pass
# gradient: 1329 Mflop
graph acnet {
  %x = input f32[4,64,48,48]
  %w = param f32[64,64,3,3]
  %v = param f32[64,64,3,1]
  %h = param f32[64,64,1,3]
  %b = param f32[64]
  %a = conv(%x, %w, %b) padding=[1,1]
  %c = conv(%x, %v) padding=[1,0]
  %d = conv(%x, %h) padding=[0,1]
  %s = add(%a, %c)
  %z = add(%s, %d)
  return %z
}
