# The same in evaluation: BatchNorm folds into weights and bias, and nothing of the volume is computed.
graph seed_c_eval {
  %x = input f32[16,64,16,32,32]
  %weight = param f32[64,128,5,5,5]
  %bias = param f32[128]
  %bn_weight = param f32[128]
  %bn_bias = param f32[128]
  %running_mean = param f32[128]
  %running_var = param f32[128]
  %y = conv_transpose(%x, %weight, %bias)
  %scaled = mul(%y, 2.0)
  %z = batch_norm(%scaled, %running_mean, %running_var, %bn_weight, %bn_bias) eps=1e-05
  %pooled = adaptive_avg_pool(%z) output_size=[1,1,1]
  return %pooled
}
