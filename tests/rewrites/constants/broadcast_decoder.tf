# A latent put everywhere beside coordinates, 3x3, ReLU: a vector a sample and an image, added.
# cheapest: 6.1 Mflop, 2 passes
graph broadcast_decoder {
  %e = input f32[4,32,1,1]
  %p = param f32[1,2,48,48]
  %w = param f32[64,34,3,3]
  %b = param f32[64]
  %x = expand(%e) shape=[4,32,48,48]
  %i = expand(%p) shape=[4,2,48,48]
  %c = concat(%x, %i) axis=1
  %y = conv(%c, %w, %b)
  %z = relu(%y)
  return %z
}
