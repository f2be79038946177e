graph softmax {
  %x = input f32[16,64,256,256]
  %s = softmax(%x) dims=[1]
  return %s
}
