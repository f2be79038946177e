graph random64 {
  %x = input f32[3,6,1,1,4]
  %0 = upsample(%x) scale=[2,1,2]
  %1 = greater(%0, 0)
  %2 = mul(%0, -0.13114647997152706)
  %3 = select(%1, %0, %2)
  %4 = avg_pool(%3) stride=[2,1,1] padding=[1,0,0] kernel=[2,1,1] count_include_pad=0
  %5 = add(%4, %3)
  %6 = abs(%5)
  return %6, %6
}
