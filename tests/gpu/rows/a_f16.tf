# ConvTranspose2d, scaled, then averaged over the image twice: no product over the image is needed.
graph seed_a {
  %x = input f16[16,64,128,128]
  %weight = param f16[64,128,3,3]
  %bias = param f16[128]
  %y = conv_transpose(%x, %weight, %bias) stride=[2,2] padding=[1,1] output_padding=[1,1]
  %scaled = mul(%y, 0.5)
  %mean = mean(%scaled) dims=[2,3] keepdim=1
  %again = mean(%mean) dims=[2,3] keepdim=1
  return %again
}
