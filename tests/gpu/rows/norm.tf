graph norm {
  %x = input f32[16,64,256,256]
  %v = var(%x) dims=[0,2,3] keepdim=1
  %m = mean(%x) dims=[0,2,3] keepdim=1
  %c = sub(%x, %m)
  %e = add(%v, 1e-05)
  %r = rsqrt(%e)
  %y = mul(%c, %r)
  %t = tanh(%y)
  return %t
}
