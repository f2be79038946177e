graph random1 {
  %x = input f64[2,4,5,5,1]
  %0 = neg(%x)
  %w0 = param f64[4,4,3,2,3]
  %bias1 = param f64[4]
  %1 = conv(%0, %w0, %bias1) stride=[2,1,2] padding=[4,0,4]
  %positive2 = param f64[1,4,1,1,1]
  %2 = div(%1, %positive2)
  return %2
}
