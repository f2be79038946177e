# Coordinates concatenated, 3x3 (CoordConv): what does not depend on the sample is an image that is made with the weights.
# cheapest: 335 Mflop, 1 pass
graph coordinates {
  %x = input f32[4,64,48,48]
  %p = param f32[1,2,48,48]
  %w = param f32[32,66,3,3]
  %b = param f32[32]
  %i = expand(%p) shape=[4,2,48,48]
  %c = concat(%x, %i) axis=1
  %z = conv(%c, %w, %b) padding=[1,1]
  return %z
}
