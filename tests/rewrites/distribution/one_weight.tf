# Σ wᵢ·conv(xᵢ) with one weight: the inputs are added first.
# cheapest: 168 Mflop, 1 pass
# gradient: 335 Mflop
graph one_weight {
  %x1 = input f32[4,32,48,48]
  %x2 = input f32[4,32,48,48]
  %x3 = input f32[4,32,48,48]
  %x4 = input f32[4,32,48,48]
  %w = param f32[32,32,3,3]
  %b = param f32[32]
  %s2 = param f32[]
  %y1 = conv(%x1, %w, %b) padding=[1,1]
  %y2 = conv(%x2, %w, %b) padding=[1,1]
  %y3 = conv(%x3, %w, %b) padding=[1,1]
  %y4 = conv(%x4, %w, %b) padding=[1,1]
  %a2 = mul(%y2, %s2)
  %a3 = mul(%y3, 0.5)
  %u = add(%y1, %a2)
  %v = sub(%u, %a3)
  %z = add(%v, %y4)
  return %z
}
