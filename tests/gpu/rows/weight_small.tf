graph weight_gradient {
  %x = input f32[2,20,17,30]
  %g = input f32[2,36,33,59]
  %w = correlate(%x, %g) up=[2,2] offset=[1,1] taps=[3,3]
  return %w
}
