# Slices of even and odd rows and columns, concatenated, then 3x3 (Focus).
# cheapest: 62.4 Mflop, 1 pass
graph focus {
  %x = input f32[4,3,96,96]
  %w = param f32[32,12,3,3]
  %e = slice(%x) axis=2 start=0 end=96 step=2
  %o = slice(%x) axis=2 start=1 end=96 step=2
  %ee = slice(%e) axis=3 start=0 end=96 step=2
  %oe = slice(%o) axis=3 start=0 end=96 step=2
  %eo = slice(%e) axis=3 start=1 end=96 step=2
  %oo = slice(%o) axis=3 start=1 end=96 step=2
  %z = concat(%ee, %oe, %eo, %oo) axis=1
  %y = conv(%z, %w) padding=[1,1]
  return %y
}
