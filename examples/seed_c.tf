# ConvTranspose3d, scaled, BatchNorm3d in training, global average: the mean comes from the collapse, the variance from one
# pass over the volume that stores nothing. The running statistics are outputs like any other (momentum 0.1).
graph seed_c {
  %x = input f32[16,64,16,32,32]
  %weight = param f32[64,128,5,5,5]
  %bias = param f32[128]
  %bn_weight = param f32[128]
  %bn_bias = param f32[128]
  %running_mean = param f32[128]
  %running_var = param f32[128]
  %y = conv_transpose(%x, %weight, %bias)
  %scaled = mul(%y, 2.0)
  %z = batch_norm(%scaled, %bn_weight, %bn_bias) training=1 eps=1e-05
  %pooled = adaptive_avg_pool(%z) output_size=[1,1,1]
  %batch_mean = mean(%scaled) dims=[0,2,3,4]
  %kept_mean = mul(%running_mean, 0.9)
  %part_mean = mul(%batch_mean, 0.1)
  %new_mean = add(%kept_mean, %part_mean)
  %batch_var = var(%scaled) dims=[0,2,3,4] correction=1.0
  %kept_var = mul(%running_var, 0.9)
  %part_var = mul(%batch_var, 0.1)
  %new_var = add(%kept_var, %part_var)
  return %pooled, %new_mean, %new_var
}
