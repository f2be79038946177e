# Depthwise branches of one input, as in MobileOne: two 3x3, a 1x1 and a scale of x, then ReLU.
# cheapest: 14 Mflop, 1 pass
# gradient: 36.5 Mflop
graph depthwise {
  %x = input f32[4,64,48,48]
  %u = param f32[64,1,3,3]
  %v = param f32[64,1,3,3]
  %w = param f32[64,1,1,1]
  %s = param f32[64,1,1]
  %t = param f32[64,1,1]
  %a = conv(%x, %u) padding=[1,1] groups=64
  %b = conv(%x, %v) padding=[1,1] groups=64
  %c = conv(%x, %w) groups=64
  %m = mul(%b, %s)
  %n = mul(%x, %t)
  %p = add(%a, %m)
  %q = add(%p, %c)
  %r = add(%q, %n)
  %z = relu(%r)
  return %z
}
