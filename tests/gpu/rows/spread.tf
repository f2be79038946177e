graph spread {
  %h = input f32[16,256,1,1]
  %y = box_spread(%h) dims=[2,3] counts=[2,2] los=[1,0,1,0] his=[127,127,127,127] steps=[1,1,1,1] sizes=[128,128]
  return %y
}
