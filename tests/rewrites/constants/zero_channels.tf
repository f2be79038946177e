# Channels of zeros and of a number beside x.
# cheapest: 85 Mflop, 1 pass
# gradient: 166 Mflop
graph zero_channels {
  %x = input f32[4,32,48,48]
  %w = param f32[16,64,3,3]
  %zeros = full() shape=[4,24,48,48] value=0 dtype=f32
  %halves = full() shape=[4,8,48,48] value=0.5 dtype=f32
  %c = concat(%x, %zeros, %halves) axis=1
  %z = conv(%c, %w) padding=[1,1]
  return %z
}
