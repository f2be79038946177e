# conv(concat(x, an embedding expanded over the image)): constant channels are a bias, a few values at borders.
# cheapest: 252 Mflop, 3 passes
# gradient: 504 Mflop
graph expanded_embedding {
  %x = input f32[4,24,48,48]
  %e = input f32[4,40,1,1]
  %w = param f32[64,64,3,3]
  %b = param f32[64]
  %i = expand(%e) shape=[4,40,48,48]
  %c = concat(%x, %i) axis=1
  %z = conv(%c, %w, %b) padding=[1,1]
  return %z
}
