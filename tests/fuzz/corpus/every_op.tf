# One statement for each op the random graphs do not make, and every form of number and name.
graph every-op.v1 {
  %x = input f64[2,4,6]
  %0.weight = param f64[1,4,2,3]
  %slope = param f64[4]
  %y = lattice(%x, %0.weight) up=[2] down=[1] dil=[1] offset=[-1] out=[9] : f64[2,2,9]
  %g = correlate(%x, %y) up=2 offset=-1 taps=[3]
  %v = covariance(%x) up=2 offset=-1 out=[9] taps=[3]
  %p = max_pool(%x) kernel=2 stride=[2] padding=1 dilation=[1] ceil_mode=1
  %q = max_pool_grad(%x, %p) kernel=[2] stride=[2] padding=[1] ceil_mode=1
  %r = adaptive_max_pool(%x) output_size=[4]
  %s = max_pool_grad(%x, %r) output_size=[4]
  %t = avg_pool_grad(%r) sizes=[6] output_size=[4]
  %u = prelu(%t, %slope)
  %7 = taps(%0.weight) axis=-1 rows=2 matrix=[0,1,0.5,-1e-3,inf,nan]
  %b = box_sums(%x) dims=[2] counts=[2] los=[0,1] his=[5,4] steps=[1,2]
  %c = box_spread(%b) dims=[2] counts=[2] los=[0,1] his=[5,4] steps=[1,2] sizes=[6]
  %k = constant() dtype=bf16 shape=[2,2] values=[1,-0,5e-324,-inf]
  %f = full() dtype=f16 shape=[] value=nan
  %d = detach(%c)
  %e = identity(%d)
  %h = select(%e, 1, -0.5)
  %i = equal(%h, 0)
  %j = cast(%i) dtype=f16
  %l = slice(%j) axis=1 start=-3 end=-1 step=2
  %m = pad(%l) start=[0,-1,2] end=[1,1,0] value=-inf
  return %y, grad=%g, %q, %s, %u, %7, %k, %f, %m, 0.25, -0
}
