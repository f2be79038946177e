graph weight_gradient {
  %x = input f32[64,64,128,256]
  %g = input f32[64,128,130,260]
  %w = correlate(%x, %g) taps=[3,5]
  return %w
}
