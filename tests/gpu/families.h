// One small graph, or a few, for every kind of kernel: tiles with each chain, precision, loader and sink; moments and
// their tails; statistics; weight gradients; covariances in ordinary arithmetic and on tensor cores; thin and grouped
// products; general kernels. compute-sanitizer sees these, so they are as small as the kernels allow.
#pragma once

#include <map>
#include <string_view>

#include "gpu/trials.h"

namespace transfuse::cuda {

// By name; in f32.
inline const std::map<std::string_view, std::string_view>& family_graphs() {
    static const std::map<std::string_view, std::string_view> graphs = {
        // Rows of whole 16 bytes: Hopper loads them in boxes. A tensor beside the convolution, which comes a chunk ahead;
        // channels last in boxes too.
        {"boxed",
         "%x = input f32[2,40,9,16]\n  %w = param f32[40,72,4,4]\n  %r = input f32[2,72,18,32]\n  %y = conv_transpose(%x, %w) "
         "stride=[2,2] padding=[1,1]\n  %a = add(%y, %r)\n  %z = silu(%a)"},
        // Two such tensors, values of channels between them.
        {"beside",
         "%x = input f32[3,128,11,13]\n  %w = param f32[128,88,2,2]\n  %p = param f32[88,1,1]\n  %r = input f32[3,88,22,26]\n  %q = input "
         "f32[3,88,22,26]\n  %y = conv_transpose(%x, %w) stride=[2,2]\n  %a = add(%y, %r)\n  %s = mul(%a, %p)\n  %m = add(%q, %s)\n  %z = relu(%m)"},
        // Rows that begin anywhere, one by one in boxes.
        {"unaligned_rows",
         "%x = input f32[2,40,9,37]\n  %w = param f32[40,72,3,3]\n  %y = conv_transpose(%x, %w) padding=[1,1]\n  %z = silu(%y)"},
        // A row under a tall kernel: every tile leaves out slabs of weights.
        {"few_rows", "%x = input f32[4,32,1,64]\n  %w = param f32[32,64,9,3]\n  %y = conv_transpose(%x, %w)\n  %z = relu(%y)"},
        // Runs of eight columns and many rows, straight to memory or in boxes.
        {"strips", "%x = input f32[66,128,28,8]\n  %w = param f32[128,128,3,3]\n  %z = conv_transpose(%x, %w) padding=[1,1]"},
        // Dense passes behind one another, with buffers of rows that begin anywhere between them.
        {"buffers",
         "%x = input f32[3,40,5,7]\n  %w = param f32[48,40,3,3]\n  %u = param f32[48,64,2,2]\n  %v = param f32[8,64,1,1]\n  %y "
         "= conv(%x, %w) padding=[1,1]\n  %r = relu(%y)\n  %t = conv_transpose(%r, %u) stride=[2,2]\n  %s = gelu(%t)\n  %z = "
         "conv(%s, %v)"},
        // Rows that begin anywhere, too short for boxes of their own: the input is laid channels last first.
        {"to_channels_last",
         "%x = input f32[9,72,5,7]\n  %w = param f32[72,136,4,4]\n  %y = conv_transpose(%x, %w) stride=[2,2] padding=[1,1]\n  "
         "%z = silu(%y)"},
        // The same of few channels: two pixels of 16 bits at a time.
        {"pairs", "%x = input f32[2,24,6,10]\n  %w = param f32[24,40,3,3]\n  %y = conv_transpose(%x, %w) padding=[1,1]\n  %z = silu(%y)"},
        // Images that lie one after another as one long row.
        {"small_images",
         "%x = input f32[9,64,4,4]\n  %w = param f32[64,32,4,4]\n  %b = param f32[32]\n  %y = conv_transpose(%x, %w, %b) "
         "stride=[2,2] padding=[1,1]\n  %z = relu(%y)"},
        // Softmax over many channels: pixels are the rows of a product. Rows of whole vectors, and rows that begin anywhere.
        {"swap_ab",
         "%x = input f32[8,24,40,40]\n  %w = param f32[24,104,4,4]\n  %b = param f32[104]\n  %y = conv_transpose(%x, %w, %b) "
         "stride=[2,2] padding=[1,1]\n  %s = softmax(%y) dims=[1]\n  %z = sigmoid(%s)"},
        {"swap_ab_anywhere",
         "%x = input f32[2,24,20,64]\n  %w = param f32[24,136,3,3]\n  %y = conv_transpose(%x, %w)\n  %z = softmax(%y) "
         "dims=[1]"},
        // A scale of each image's channels and an activation, while the patch is loaded.
        {"prologue",
         "%x = input f32[2,32,18,16]\n  %q = input f32[2,32,1,1]\n  %w = param f32[32,64,4,4]\n  %m = mul(%x, %q)\n  %s = "
         "silu(%m)\n  %y = conv_transpose(%s, %w) stride=[2,2] padding=[1,1]\n  %z = tanh(%y)"},
        // The same by a scale of every pixel.
        {"gated",
         "%x = input f32[2,32,18,16]\n  %q = input f32[2,32,18,16]\n  %w = param f32[32,64,4,4]\n  %m = mul(%x, %q)\n  %s = "
         "silu(%m)\n  %y = conv_transpose(%s, %w) stride=[2,2] padding=[1,1]\n  %z = tanh(%y)"},
        // Where rows begin anywhere, and a patch has fewer pixels than the warps that load it.
        {"gated_unaligned_rows",
         "%m = input f32[1,64,4,89]\n  %x = input f32[1,64,4,89]\n  %w = param f32[64,64,8,1]\n  %g = sigmoid(%x)\n  %n = mul(%m, %g)\n  %z = "
         "conv_transpose(%n, %w) stride=[4,1]"},
        // A strided convolution.
        {"strided",
         "%x = input f32[2,32,10,16]\n  %w = param f32[64,32,3,3]\n  %y = conv(%x, %w) stride=[2,2] padding=[1,1]\n  %z = tanh(%y)"},
        // Two results side by side in a third.
        {"slices",
         "%x = input f32[2,32,8,12]\n  %v = param f32[32,40,4,4]\n  %w = param f32[32,24,2,2]\n  %p = conv_transpose(%x, %v) "
         "stride=[2,2] padding=[1,1]\n  %q = conv_transpose(%x, %w) stride=[2,2]\n  %a = relu(%p)\n  %z = concat(%a, %q) axis=1"},
        // A stride of 8 along a signal: many residues, few pixels each.
        {"many_phases",
         "%x = input f32[1,64,50]\n  %w = param f32[64,32,16]\n  %b = param f32[32]\n  %y = conv_transpose(%x, %w, %b) stride=[8] "
         "padding=[4]\n  %z = leaky_relu(%y) negative_slope=0.1"},
        // Rows of phases that differ in their windows alone: one text for several.
        {"phases_alike",
         "%x = input f32[1,32,5,8]\n  %w = param f32[32,64,16,16]\n  %y = conv_transpose(%x, %w) stride=[8,8] padding=[4,4]\n  %z = relu(%y)"},
        // Rows that a tile holds: a norm, and a softmax of rows of an odd length.
        {"row_norm",
         "%x = input f32[2,32,4,8,32]\n  %w = param f32[32,48,4,4,4]\n  %g = param f32[64]\n  %h = param f32[64]\n  %y = "
         "conv_transpose(%x, %w) stride=[2,2,2] padding=[1,1,1]\n  %n = layer_norm(%y, %g, %h) normalized_shape=[64]\n  %z = gelu(%n)"},
        {"row_softmax",
         "%x = input f32[2,24,40,19]\n  %w = param f32[24,70,3,3]\n  %y = conv_transpose(%x, %w) stride=[2,2]\n  %z = "
         "softmax(%y) dims=[3]"},
        // Rows of a stored result: each group of threads has a row in its registers.
        {"plane_norm",
         "%x = input f32[2,32,4,8,32]\n  %w = param f32[32,48,4,4,4]\n  %g = param f32[16,64]\n  %h = param f32[16,64]\n  %y = "
         "conv_transpose(%x, %w) stride=[2,2,2] padding=[1,1,1]\n  %n = layer_norm(%y, %g, %h) normalized_shape=[16,64]\n  %z = gelu(%n)"},
        // A chain that no tile holds: the product alone, the rest by the general kernel.
        {"product_alone",
         "%x = input f32[2,32,9,8]\n  %w = param f32[32,160,4,4]\n  %y = conv_transpose(%x, %w) stride=[2,2] padding=[1,1]\n  %z = "
         "softmax(%y) dims=[1]"},
        // Reductions over space that a later step needs: a softmax over all pixels, a maximum, sums over rows.
        {"over_space",
         "%x = input f32[2,32,8,12]\n  %w = param f32[32,48,3,3]\n  %y = conv_transpose(%x, %w) padding=[1,1]\n  %t = tanh(%y)\n  "
         "%s = softmax(%t) dims=[2,3]\n  %m = amax(%t) dims=[2,3] keepdim=1\n  %r = logsumexp(%t) dims=[3] keepdim=1\n  %a = "
         "mul(%s, %m)\n  %z = add(%a, %r)"},
        // Few input channels, phases joined by a pool, statistics of groups.
        {"pooled_cells",
         "%x = input f32[2,3,4,5,6]\n  %w = param f32[3,16,3,3,3]\n  %b = param f32[16]\n  %y = conv_transpose(%x, %w, %b) "
         "stride=[2,2,2] padding=[1,1,1]\n  %p = max_pool(%y) kernel=[2,2,2]\n  %m = mean(%p) dims=[2,3,4] keepdim=1\n  %z = clamp(%m) "
         "lo=0 hi=1"},
        {"grouped_cells",
         "%x = input f32[2,3,4,5,7]\n  %w = param f32[3,16,3,3,3]\n  %g = param f32[16]\n  %h = param f32[16]\n  %y = "
         "conv_transpose(%x, %w) stride=[2,2,2] padding=[1,1,1]\n  %s = silu(%y)\n  %n = group_norm(%s, %g, %h) num_groups=4\n  %z = "
         "hardswish(%n)"},
        // The same with a reduction over channels; with a pool that is stored, of many channels.
        {"reduced_cells",
         "%x = input f32[2,3,4,5,6]\n  %w = param f32[3,16,3,3,3]\n  %b = param f32[16]\n  %y = conv_transpose(%x, %w, %b) "
         "stride=[2,2,2] padding=[1,1,1]\n  %l = logsumexp(%y) dims=[1] keepdim=1\n  %z = sigmoid(%l)"},
        {"stored_cells",
         "%x = input f32[2,3,6,8]\n  %w = param f32[3,40,4,4]\n  %b = param f32[40]\n  %y = conv_transpose(%x, %w, %b) "
         "stride=[2,2] padding=[1,1]\n  %p = max_pool(%y) kernel=[2,2] stride=[2,2]\n  %z = tanh(%p)"},
        // Few channels in and out, sums of many products: column by column.
        {"thin_columns",
         "%x = input f32[1,8,33,40]\n  %w = param f32[4,8,3,3]\n  %b = param f32[4]\n  %y = conv(%x, %w, %b) padding=[1,1]\n  %z = tanh(%y)"},
        // Three output channels: the products of each tap, added up afterwards.
        {"col2im",
         "%x = input f32[2,512,16,16]\n  %w = param f32[512,3,4,4]\n  %b = param f32[3]\n  %y = conv_transpose(%x, %w, %b) "
         "stride=[2,2] padding=[1,1]\n  %z = tanh(%y)"},
        // Many input channels, few tiles: slices of the channels, of groups, added up afterwards.
        {"split_k",
         "%x = input f32[2,1024,6,7]\n  %w = param f32[1024,64,4,4]\n  %b = param f32[128]\n  %y = conv_transpose(%x, %w, %b) "
         "stride=[2,2] padding=[1,1] groups=2\n  %z = silu(%y)"},
        // Statistics alone, of channels that have no slices.
        {"statistics",
         "%x = input f32[2,20,16,16]\n  %w = param f32[20,40,4,4]\n  %y = conv_transpose(%x, %w) stride=[2,2] padding=[1,1]\n  "
         "%s = silu(%y)\n  %v = var(%s) dims=[0,2,3] keepdim=1\n  %z = rsqrt(%v)"},
        // The taps of some axes, of groups, added up for a norm's statistics.
        {"some_taps_apart",
         "%x = input f32[4,256,6,8,8]\n  %w = param f32[256,6,4,4,4]\n  %y = conv_transpose(%x, %w) groups=2\n  %z = instance_norm(%y)"},
        // Rows of many channels, which warps share.
        {"channel_rows",
         "%x = input f32[2,300,9,11]\n  %w = param f32[300]\n  %p = permute(%x) order=[0,2,3,1]\n  %n = layer_norm(%p, %w) normalized_shape=[300]\n"
         "  %q = permute(%n) order=[0,3,1,2]\n  %z = gelu(%q)"},
        // Gradients: of a mean over space, of weights, of weights of groups.
        {"box_spread",
         "%h = input f32[2,12,1,1]\n  %y = box_spread(%h) dims=[2,3] counts=[2,2] los=[0,1,0,2] his=[15,14,18,19] steps=[1,1,2,1] "
         "sizes=[16,20]\n  %z = mul(%y, 0.5)"},
        {"grouped_gradient",
         "%x = input f32[2,24,17,30]\n  %g = input f32[2,24,33,59]\n  %z = correlate(%x, %g) up=[2,2] offset=[1,1] taps=[3,3] groups=24"},
        {"weight_gradient",
         "%x = input f32[2,20,300]\n  %g = input f32[2,36,450]\n  %z = correlate(%x, %g) up=[3] down=[2] offset=[3] taps=[7]"},
        // Of few channels: theirs and their taps are columns, of g or of x.
        {"columns_of_g",
         "%x = input f32[2,40,17,30]\n  %g = input f32[2,3,33,59]\n  %z = correlate(%x, %g) up=[2,2] offset=[1,1] taps=[3,3]"},
        {"columns_of_x",
         "%x = input f32[2,5,35,30]\n  %g = input f32[2,24,17,30]\n  %z = correlate(%x, %g) down=[2,1] offset=[1,1] taps=[5,3]"},
        // Of more channels: warpgroups share the positions, or the channels of g.
        {"shared_positions",
         "%x = input f32[2,40,17,30]\n  %g = input f32[2,36,33,59]\n  %z = correlate(%x, %g) up=[2,2] offset=[1,1] taps=[3,3]"},
        {"shared_channels",
         "%x = input f32[2,64,17,29]\n  %g = input f32[2,72,17,29]\n  %z = correlate(%x, %g) offset=[1,2] taps=[3,5]"},
        // The input's products with itself.
        {"few_channels",
         "%x = input f32[3,3,9,14,40]\n  %c = covariance(%x) up=[2,2,2] offset=[1,1,1] out=[17,27,79] taps=[3,3,3]\n"
         "  %z = cast(%c) dtype=f32"},
        {"more_channels",
         "%x = input f32[2,20,5,16,37]\n  %c = covariance(%x) up=[2,2,2] offset=[1,1,1] out=[9,31,73] taps=[3,3,3]\n"
         "  %z = cast(%c) dtype=f32"},
        {"half_channels",
         "%x = input f32[2,40,6,9]\n  %c = covariance(%x) up=[2,2] offset=[1,1] out=[11,17] taps=[3,3] groups=2\n"
         "  %z = cast(%c) dtype=f16"},
        {"far_apart",
         "%x = input f32[1,2,150,150]\n  %c = covariance(%x) dil=[40,35] offset=[40,35] out=[150,150] taps=[3,3]\n"
         "  %z = cast(%c) dtype=f32"},
        // Groups of few channels: whole periods in a thread; a softmax over channels; statistics of a channel; one axis, many taps.
        {"upsampled",
         "%x = input f32[3,24,33,40]\n  %w = param f32[24,1,4,4]\n  %b = param f32[24]\n  %y = conv_transpose(%x, %w, %b) "
         "stride=[2,2] padding=[1,1] groups=24\n  %z = sigmoid(%y)"},
        {"segments",
         "%x = input f32[2,21,20,24]\n  %w = param f32[21,1,16,16]\n  %y = conv_transpose(%x, %w) stride=[8,8] padding=[4,4] "
         "groups=21\n  %z = softmax(%y) dims=[1]"},
        {"many_segments",
         "%x = input f32[1,150,6,8]\n  %w = param f32[150,1,16,16]\n  %y = conv_transpose(%x, %w) stride=[8,8] padding=[4,4] "
         "groups=150\n  %z = softmax(%y) dims=[1]"},
        {"separable",
         "%x = input f32[4,32,17,23]\n  %w = param f32[32,1,3,3]\n  %g = param f32[32]\n  %h = param f32[32]\n  %y = "
         "conv_transpose(%x, %w) stride=[2,2] padding=[1,1] groups=32\n  %n = batch_norm(%y, %g, %h) training=1\n  %z = silu(%n)"},
        // A mean that is stored and that its tail goes on with.
        {"centred",
         "%x = input f32[4,16,17,23]\n  %w = param f32[16,32,3,3]\n  %y = conv_transpose(%x, %w) stride=[2,2] padding=[1,1]\n  %r = relu(%y)\n  "
         "%m = mean(%r) dims=[0,2,3] keepdim=1\n  %q = square(%r)\n  %e = mean(%q) dims=[0,2,3] keepdim=1\n  %s = square(%m)\n  "
         "%v = sub(%e, %s)\n  %d = sub(%r, %m)\n  %z = mul(%d, %v)"},
        {"vocoder",
         "%x = input f32[2,48,1000]\n  %w = param f32[48,2,12]\n  %y = conv_transpose(%x, %w) stride=[2] padding=[5] groups=48\n  "
         "%z = leaky_relu(%y) negative_slope=0.1"},
    };
    return graphs;
}

struct Family {
    std::string_view name;  // of a row, or of one of the graphs above
    DType dtype;
    Fp32Precision precision;
    bool last = false;
    bool unaligned = false;
    bool later = false;  // a later size of a program
};

inline const std::vector<Family>& families() {
    using enum DType;
    using enum Fp32Precision;
    constexpr bool last = true, planes = false, unaligned = true, aligned = false, later = true;
    static const std::vector<Family> list = {
        {"D", f32, tf32}, {"D", f32, strict}, {"D", f16, strict}, {"D", f16, strict, last}, {"D", f64, strict},
        {"d2", bf16, strict}, {"d5", f32, strict, last}, {"d6", f32, tf32, last}, {"f1", f32, tf32}, {"f1", f32, strict},
        {"f2", f16, strict}, {"f3", f32, tf32}, {"f4", f32, tf32}, {"f5", f32, tf32}, {"f6", f32, tf32, last},
        {"f7", f32, tf32}, {"f8", f32, tf32}, {"f8", f16, strict, last}, {"f9", f32, strict}, {"f10", f32, tf32},
        {"f11", f32, tf32}, {"f12", f32, tf32}, {"A", f32, tf32}, {"A", f16, strict, last}, {"B", f32, tf32},
        {"C", f32, tf32}, {"C", f32, strict}, {"weight_gradient", f32, strict}, {"weight_gradient", f32, tf32, last},
        {"upsampled", f32, strict}, {"upsampled", f16, strict}, {"upsampled", f32, strict, last},
        {"segments", f32, strict}, {"segments", bf16, strict, last}, {"separable", f32, strict},
        {"separable", f16, strict, last}, {"vocoder", f32, strict}, {"vocoder", f64, strict},
        {"few_channels", f32, strict}, {"more_channels", f32, strict, last}, {"more_channels", f32, tf32},
        {"half_channels", f16, strict}, {"far_apart", f32, strict}, {"boxed", f32, tf32}, {"boxed", f32, strict},
        {"boxed", f16, strict}, {"boxed", f32, tf32, last}, {"small_images", f32, tf32}, {"small_images", bf16, strict},
        {"swap_ab", f32, tf32}, {"swap_ab", f16, strict, last}, {"swap_ab", f32, tf32, last}, {"swap_ab_anywhere", f32, tf32},
        {"swap_ab_anywhere", f16, strict}, {"strips", f32, tf32}, {"strips", f32, tf32, last}, {"buffers", f32, tf32},
        {"buffers", f16, strict},
        {"prologue", f32, tf32}, {"prologue", f16, strict, last}, {"strided", f32, tf32}, {"slices", f32, tf32}, {"many_phases", f32, tf32},
        {"over_space", f32, tf32}, {"pooled_cells", f32, strict}, {"grouped_cells", f32, strict},
        {"box_spread", f32, strict}, {"grouped_gradient", f32, strict}, {"col2im", f32, tf32},
        {"gated", f32, tf32}, {"gated_unaligned_rows", f32, tf32}, {"gated_unaligned_rows", f16, strict}, {"phases_alike", f32, tf32}, {"row_norm", f32, tf32}, {"product_alone", f32, strict},
        {"reduced_cells", f32, strict}, {"stored_cells", f32, strict}, {"thin_columns", f32, strict}, {"many_segments", f32, strict},
        {"weight_gradient", f16, strict}, {"weight_gradient", f64, strict}, {"boxed", f32, tf32, planes, unaligned},
        {"upsampled", f32, strict, planes, unaligned}, {"A", f32, tf32, planes, unaligned}, {"A", f32, tf32, planes, aligned, later},
        {"f4", f32, tf32, planes, aligned, later}, {"f5", f32, tf32, planes, aligned, later}, {"f9", f32, strict, planes, aligned, later},
        {"columns_of_g", f32, tf32}, {"columns_of_g", f32, strict}, {"columns_of_x", f32, tf32, last}, {"columns_of_x", f16, strict},
        {"shared_positions", f32, tf32}, {"shared_channels", f16, tf32}, {"shared_channels", f32, tf32, planes, aligned, later},
        {"boxed", f32, tf32, planes, aligned, later}, {"row_norm", f32, tf32, planes, aligned, later}, {"unaligned_rows", f32, tf32}, {"unaligned_rows", f32, strict}, {"unaligned_rows", f16, strict},
        {"to_channels_last", f32, tf32}, {"to_channels_last", f16, strict}, {"pairs", f16, strict}, {"D", f32, strict, last}, {"prologue", f32, tf32, last}, {"strided", f32, tf32, last},
        {"boxed", f32, strict, last}, {"boxed", bf16, strict, last}, {"beside", f32, tf32, last}, {"beside", f16, strict, last},
        {"pairs", f16, strict, planes, unaligned}, {"d5", f32, tf32}, {"d5", f32, tf32, last},
        {"row_norm", f32, strict}, {"row_norm", f16, strict}, {"row_softmax", f32, tf32}, {"plane_norm", f32, tf32},
        {"plane_norm", f32, tf32, planes, aligned, later}, {"centred", f32, tf32}, {"few_rows", f32, tf32}, {"few_rows", f32, strict},
        {"few_rows", f16, strict}, {"some_taps_apart", f32, tf32}, {"some_taps_apart", f32, strict}, {"channel_rows", f32, strict},
        {"channel_rows", f16, strict}, {"statistics", f32, strict}, {"split_k", f32, tf32}, {"split_k", f16, strict, last}, {"split_k", f32, strict},
    };
    return list;
}

inline uint64_t family_count() { return families().size(); }
inline Trial family_trial(uint64_t n) {
    const Family& family = families()[n];
    Setting setting;
    setting.precision = family.precision, setting.last = family.last, setting.unaligned = family.unaligned;
    setting.later = family.later;
    const std::string dtype(name(family.dtype)), what = std::string(family.name) + " " + dtype;
    const auto own = family_graphs().find(family.name);
    if (own == family_graphs().end()) return {what, tests::row(family.name, tests::Scale::small, family.dtype), n, setting, 1};
    std::string body(own->second);
    for (size_t at = 0; (at = body.find("f32[", at)) != std::string::npos; at += dtype.size()) body.replace(at, 3, dtype);
    return {what, parse("graph g {\n  " + body + "\n  return %z\n}\n"), n, setting, 1};
}

}  // namespace transfuse::cuda
