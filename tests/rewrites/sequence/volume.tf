# The end of a decoder of volumes: ConvT k2 s2, batch norm, 1x1x1 to 2 channels.
# cheapest: 1.12 Mflop, 1 pass
graph volume {
  %x = input f32[4,16,8,8,8]
  %w = param f32[16,32,2,2,2]
  %b = param f32[32]
  %m = param f32[32]
  %positive_v = param f32[32]
  %v = param f32[2,32,1,1,1]
  %c = param f32[2]
  %y = conv_transpose(%x, %w, %b) stride=[2,2,2]
  %n = batch_norm(%y, %m, %positive_v)
  %z = conv(%n, %v, %c)
  return %z
}
