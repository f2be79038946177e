// The benchmark chains (seeds A–D, plain convolutions d1–d6, fused chains f1–f12) as graphs: at full size, or with
// batch and space cut down so that the reference engine answers at once. Channels stay, borders stay.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "transfuse/error.h"
#include "transfuse/graph.h"

namespace transfuse::tests {

enum class Scale : uint8_t { full, small, tiny };  // tiny: channels are cut down as well, where they can be

inline const std::vector<std::pair<std::string_view, std::string_view>>& rows() {
    static const std::vector<std::pair<std::string_view, std::string_view>> list = {
        {"A", R"(graph A {
  %x = input f32[16,64,128,128]
  %w = param f32[64,128,3,3]
  %b = param f32[128]
  %y = conv_transpose(%x, %w, %b) stride=[2,2] padding=[1,1] output_padding=[1,1]
  %s = mul(%y, 0.5)
  %m = mean(%s) dims=[2,3] keepdim=1
  %mm = mean(%m) dims=[2,3] keepdim=1
  return %mm
})"},
        {"B", R"(graph B {
  %x = input f32[16,64,512,512]
  %w = param f32[64,128,3,3]
  %b = param f32[128]
  %t = param f32[128,1,1]
  %y = conv_transpose(%x, %w, %b)
  %m = mean(%y) dims=[2,3] keepdim=1
  %a = add(%m, %t)
  %l = logsumexp(%a) dims=[1] keepdim=1
  %s = sum(%l) dims=[2,3]
  %z = mul(%s, 10)
  return %z
})"},
        {"C", R"(graph C {
  %x = input f32[16,64,16,32,32]
  %w = param f32[64,128,5,5,5]
  %b = param f32[128]
  %gamma = param f32[128]
  %beta = param f32[128]
  %running_mean = param f32[128]
  %positive_running_var = param f32[128]
  %y = conv_transpose(%x, %w, %b)
  %s = mul(%y, 2)
  %n = batch_norm(%s, %gamma, %beta) training=1
  %p = adaptive_avg_pool(%n) output_size=[1,1,1]
  %bm = mean(%s) dims=[0,2,3,4]
  %bv = var(%s) dims=[0,2,3,4] correction=1
  %km = mul(%running_mean, 0.9)
  %kv = mul(%positive_running_var, 0.9)
  %am = mul(%bm, 0.1)
  %av = mul(%bv, 0.1)
  %nm = add(%km, %am)
  %nv = add(%kv, %av)
  return %p, %nm, %nv
})"},
        {"C_eval", R"(graph C_eval {
  %x = input f32[16,64,16,32,32]
  %w = param f32[64,128,5,5,5]
  %b = param f32[128]
  %gamma = param f32[128]
  %beta = param f32[128]
  %running_mean = param f32[128]
  %positive_running_var = param f32[128]
  %y = conv_transpose(%x, %w, %b)
  %s = mul(%y, 2)
  %n = batch_norm(%s, %running_mean, %positive_running_var, %gamma, %beta) training=0
  %p = adaptive_avg_pool(%n) output_size=[1,1,1]
  return %p
})"},
        {"D", R"(graph D {
  %x = input f32[64,64,128,256]
  %w = param f32[64,128,3,5]
  %y = conv_transpose(%x, %w)
  return %y
})"},
        {"d1", R"(graph d1 {
  %x = input f32[8,64,1024,1024]
  %w = param f32[64,64,3,3]
  %y = conv_transpose(%x, %w)
  return %y
})"},
        {"d2", R"(graph d2 {
  %x = input f32[8,48,64,64,64]
  %w = param f32[48,48,3,3,3]
  %y = conv_transpose(%x, %w)
  return %y
})"},
        {"d3", R"(graph d3 {
  %x = input f32[64,128,65536]
  %w = param f32[128,128,3]
  %y = conv_transpose(%x, %w)
  return %y
})"},
        {"d4", R"(graph d4 {
  %x = input f32[8,32,512,1024]
  %w = param f32[32,32,3,3]
  %y = conv_transpose(%x, %w)
  return %y
})"},
        {"d5", R"(graph d5 {
  %x = input f32[16,32,128,256]
  %w = param f32[32,16,3,5]
  %y = conv_transpose(%x, %w) stride=[2,3] padding=[1,2] dilation=[2,1] groups=4
  return %y
})"},
        {"d6", R"(graph d6 {
  %x = input f32[16,32,16,32,32]
  %w = param f32[32,64,3,3,3]
  %y = conv_transpose(%x, %w) stride=[2,2,2] padding=[1,1,1] dilation=[2,2,2]
  return %y
})"},
        {"f1", R"(graph f1 {
  %x = input f32[128,64,128,128]
  %w = param f32[64,64,3,3]
  %b = param f32[64]
  %t = param f32[64,1,1]
  %y = conv_transpose(%x, %w, %b) stride=[2,2] padding=[1,1] output_padding=[1,1]
  %a = add(%y, %t)
  %c = clamp(%a) lo=0 hi=1
  %s = mul(%c, 2)
  %d = clamp(%s) lo=0 hi=1
  %z = div(%d, 2)
  return %z
})"},
        {"f2", R"(graph f2 {
  %x = input f32[32,64,256,256]
  %w = param f32[64,64,4,4]
  %b = param f32[64]
  %t = param f32[64,1,1]
  %y = conv_transpose(%x, %w, %b) stride=[2,2] padding=[1,1] output_padding=[1,1]
  %s = sub(%y, %t)
  %z = tanh(%s)
  return %z
})"},
        {"f3", R"(graph f3 {
  %x = input f32[128,64,256,256]
  %w = param f32[64,64,3,3]
  %b = param f32[64]
  %y = conv_transpose(%x, %w, %b) padding=[1,1]
  %p = max_pool(%y) kernel=[2,2] stride=[2,2]
  %h = hardtanh(%p) lo=-1 hi=1
  %m = mean(%h) dims=[2,3] keepdim=1
  %z = tanh(%m)
  return %z
})"},
        {"f4", R"(graph f4 {
  %x = input f32[16,16,32,128,128]
  %w = param f32[16,64,3,3,3]
  %b = param f32[64]
  %t = param f32[1,64,1,1,1]
  %y = conv_transpose(%x, %w, %b) padding=[1,1,1]
  %m = mean(%y) dims=[2] keepdim=1
  %a = add(%m, %t)
  %s = softmax(%a) dims=[1]
  %h = tanh(%s)
  %z = mul(%h, 2)
  return %z
})"},
        {"f5", R"(graph f5 {
  %x = input f32[16,16,16,32,32]
  %w = param f32[16,32,3,3,3]
  %b = param f32[32]
  %gamma = param f32[32]
  %beta = param f32[32]
  %running_mean = param f32[32]
  %positive_running_var = param f32[32]
  %y = conv_transpose(%x, %w, %b) stride=[2,2,2] padding=[1,1,1]
  %n = batch_norm(%y, %gamma, %beta) training=1
  %m = mean(%n) dims=[2,3,4] keepdim=1
  %z = sub(%n, %m)
  %bm = mean(%y) dims=[0,2,3,4]
  %bv = var(%y) dims=[0,2,3,4] correction=1
  %km = mul(%running_mean, 0.9)
  %kv = mul(%positive_running_var, 0.9)
  %am = mul(%bm, 0.1)
  %av = mul(%bv, 0.1)
  %nm = add(%km, %am)
  %nv = add(%kv, %av)
  return %z, %nm, %nv
})"},
        {"f6", R"(graph f6 {
  %x = input f32[16,32,16,32,32]
  %w = param f32[32,64,3,3,3]
  %b = param f32[64]
  %t = param f32[64,1,1,1]
  %y = conv_transpose(%x, %w, %b) stride=[2,2,2] padding=[1,1,1] output_padding=[1,1,1]
  %c = identity(%y)
  %d = detach(%c)
  %a = add(%y, %t)
  %e = add(%a, %d)
  %f = mul(%e, %d)
  %z = add(%f, %d)
  return %z
})"},
        {"f7", R"(graph f7 {
  %x = input f32[16,64,128,128]
  %w = param f32[64,128,3,3]
  %b = param f32[128]
  %t = param f32[1,1,1]
  %y = conv_transpose(%x, %w, %b) stride=[2,2] padding=[1,1] output_padding=[1,1]
  %m = amin(%y) dims=[1] keepdim=1
  %s = sum(%m) dims=[2] keepdim=1
  %g = gelu(%s)
  %z = add(%g, %t)
  return %z
})"},
        {"f8", R"(graph f8 {
  %x = input f32[16,32,16,32,32]
  %w = param f32[32,64,3,3,3]
  %b = param f32[64]
  %y = conv_transpose(%x, %w, %b) stride=[2,2,2] padding=[1,1,1] output_padding=[1,1,1]
  %s = softmax(%y) dims=[1]
  %z = sigmoid(%s)
  return %z
})"},
        {"f9", R"(graph f9 {
  %x = input f32[128,3,16,32,32]
  %w = param f32[3,16,3,3,3]
  %b = param f32[16]
  %s1 = param f32[]
  %t = param f32[16,1,1,1]
  %s2 = param f32[]
  %y = conv_transpose(%x, %w, %b) stride=[2,2,2] padding=[1,1,1]
  %a = mul(%y, %s1)
  %p = avg_pool(%a) kernel=[2,2,2]
  %c = add(%p, %t)
  %z = mul(%c, %s2)
  return %z
})"},
        {"f10", R"(graph f10 {
  %x = input f32[64,3,32,32,32]
  %w = param f32[3,16,3,3,3]
  %b = param f32[16]
  %gamma = param f32[16]
  %beta = param f32[16]
  %running_mean = param f32[16]
  %positive_running_var = param f32[16]
  %y = conv_transpose(%x, %w, %b) stride=[2,2,2] padding=[1,1,1]
  %n = batch_norm(%y, %gamma, %beta) training=1
  %p = avg_pool(%n) kernel=[2,2,2]
  %z = avg_pool(%p) kernel=[2,2,2]
  %bm = mean(%y) dims=[0,2,3,4]
  %bv = var(%y) dims=[0,2,3,4] correction=1
  %km = mul(%running_mean, 0.9)
  %kv = mul(%positive_running_var, 0.9)
  %am = mul(%bm, 0.1)
  %av = mul(%bv, 0.1)
  %nm = add(%km, %am)
  %nv = add(%kv, %av)
  return %z, %nm, %nv
})"},
        {"f11", R"(graph f11 {
  %x = input f32[128,64,64,64]
  %w = param f32[64,128,4,4]
  %b = param f32[128]
  %t = param f32[128,1,1]
  %y = conv_transpose(%x, %w, %b) stride=[2,2] padding=[1,1] output_padding=[1,1]
  %s = softmax(%y) dims=[1]
  %a = add(%s, %t)
  %m = mul(%a, 2)
  %z = sigmoid(%m)
  return %z
})"},
        {"f12", R"(graph f12 {
  %x = input f32[128,3,16,32,32]
  %w = param f32[3,16,3,3,3]
  %b = param f32[16]
  %y = conv_transpose(%x, %w, %b) stride=[2,2,2] padding=[1,1,1]
  %s = mul(%y, 0.5)
  %p = max_pool(%s) kernel=[2,2,2]
  %a = adaptive_avg_pool(%p) output_size=[1,1,1]
  %z = clamp(%a) lo=0 hi=1
  return %z
})"},
    };
    return list;
}

// The graph with every extent of the inputs' batch and space at most as given, and every dtype replaced.
inline Graph resized(const Graph& graph, int64_t batch, int64_t space, DType dtype) {
    std::vector<Type> types;
    for (ValueId leaf : graph.leaves()) {
        Type type = graph[leaf].type;
        type.dtype = dtype;
        if (graph[leaf].op == Op::input)
            for (size_t axis = 0; axis < type.shape.size(); ++axis)
                if (axis != 1)
                    type.shape[axis] =
                        std::min(type.shape[axis], axis == 0 ? batch : space + static_cast<int64_t>(axis) % 2);
        types.push_back(std::move(type));
    }
    return graph.with_leaf_types(types);
}

// Channel counts cut to a few: 128 → 8, 64 → 4, 48 → 3, 32 → 4, 16 → 2 wherever they stand as channels in a leaf.
inline Graph thinned(const Graph& graph) {
    auto fewer = [](int64_t channels) -> int64_t {
        switch (channels) {
            case 128:
                return 8;
            case 64:
                return 6;
            case 48:
                return 3;
            case 32:
                return 4;
            case 16:
                return 4;
            default:
                return channels;
        }
    };
    std::vector<Type> types;
    for (ValueId leaf : graph.leaves()) {
        Type type = graph[leaf].type;
        const bool input = graph[leaf].op == Op::input;
        for (size_t axis = 0; axis < type.shape.size(); ++axis)
            if (!input || axis == 1) type.shape[axis] = fewer(type.shape[axis]);
        types.push_back(std::move(type));
    }
    return graph.with_leaf_types(types);
}

inline Graph row(std::string_view name, Scale scale = Scale::full, DType dtype = DType::f32) {
    for (const auto& [known, text] : rows()) {
        if (known != name) continue;
        const Graph graph = parse(text);
        switch (scale) {
            case Scale::full:
                return resized(graph, int64_t{1} << 40, int64_t{1} << 40, dtype);
            case Scale::small:
                return resized(graph, 2, 6, dtype);
            case Scale::tiny:
                if (name == "d5") return resized(graph, 2, 6, dtype);  // its groups need their channels
                return resized(thinned(graph), 2, 6, dtype);
        }
    }
    fail("rows: there is no row '", name, "'");
}

}  // namespace transfuse::tests
