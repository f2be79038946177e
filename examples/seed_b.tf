# ConvTranspose2d, image mean, bias, logsumexp over channels, sum, times ten.
graph seed_b {
  %x = input f32[16,64,512,512]
  %weight = param f32[64,128,3,3]
  %conv_bias = param f32[128]
  %bias = param f32[128,1,1]
  %y = conv_transpose(%x, %weight, %conv_bias)
  %mean = mean(%y) dims=[2,3] keepdim=1
  %biased = add(%mean, %bias)
  %lse = logsumexp(%biased) dims=[1] keepdim=1
  %sum = sum(%lse) dims=[2,3]
  %z = mul(%sum, 10.0)
  return %z
}
