// What `optimize` launches for tensors that lie where nothing is: the operators' own way (src/torch/operators.cpp),
// less PyTorch. It runs beside driver.cpp.
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "cuda/runtime/module.h"
#include "torch/mode.h"
#include "transfuse/error.h"
#include "transfuse/program.h"

using namespace transfuse;

namespace {

thread_local std::string told;

// Of each tensor its address, type, rank, extents and strides.
std::vector<TensorView> read_views(const char* text) {
    std::vector<TensorView> views;
    std::istringstream in(text);
    size_t rank = 0;
    uintptr_t address = 0;
    for (std::string dtype; in >> address >> dtype >> rank;) {
        TensorView view{reinterpret_cast<void*>(address), dtype_named(dtype), Sizes(rank, 0), Sizes(rank, 0)};
        for (Sizes* list : {&view.shape, &view.strides})
            for (int64_t& number : *list) in >> number;
        views.push_back(std::move(view));
    }
    return views;
}

std::vector<int64_t> read_list(const char* text) {
    std::vector<int64_t> list;
    std::istringstream in(text);
    for (int64_t number = 0; in >> number;) list.push_back(number);
    return list;
}

CallMode call_mode(int64_t mode, int64_t tf32) {
    CallMode call;
    call.engine = Engine::cuda;
    call.inference = (mode & mode_bits::inference) != 0;
    call.precision = (mode & tf32) != 0 ? Fp32Precision::tf32 : Fp32Precision::strict;
    if (call.precision == Fp32Precision::tf32) call.products = static_cast<int>(mode >> mode_bits::products_shift);
    return call;
}

template <class F>
const char* guarded(const F& f) {
    try {
        told = f();
    } catch (const std::exception& error) {
        told = std::string("failed: ") + error.what();
    }
    return told.c_str();
}

}  // namespace

extern "C" {

// run_keeping and, where `wanted` names leaves, run_backward. Results lie from `results` on, `apart` bytes each.
// Returns the bytes of workspace and the types and strides of the results, or "failed: …".
const char* optimized(int64_t handle, const char* leaves, const char* given, const char* sizes, int64_t mode,
                      const char* keep, const char* outputs, const char* wanted, uintptr_t workspace, uintptr_t results,
                      uintptr_t apart) {
    return guarded([&] {
        std::vector<TensorView> views = read_views(leaves);
        const std::vector<TensorView> gradients = read_views(given);
        const std::vector<int64_t> wrt = read_list(wanted), of = read_list(outputs), numbers = read_list(sizes);
        CallMode call = call_mode(mode, wrt.empty() ? mode_bits::tf32 : mode_bits::tf32_backward);
        call.keep = read_keep(read_list(keep));
        std::shared_ptr<const Instance> instance;
        if (wrt.empty()) {
            instance = program(handle)->forward(views, numbers, call);
        } else {
            GradientRequest request;
            request.outputs.assign(of.begin(), of.end()), request.wrt.assign(wrt.begin(), wrt.end());
            instance = program(handle)->backward(views, gradients, numbers, call, request);
            views.insert(views.end(), gradients.begin(), gradients.end());
        }
        std::vector<TensorView> made;
        std::ostringstream out;
        out << instance->workspace_bytes;
        for (size_t i = 0; i < instance->output_types.size(); ++i) {
            const Type& type = instance->output_types[i];
            made.push_back(
                {reinterpret_cast<void*>(results + i * apart), type.dtype, type.shape, instance->output_strides[i]});
            out << ' ' << to_string(type) << to_string(instance->output_strides[i]);
        }
        RunContext context;
        context.workspace = reinterpret_cast<void*>(workspace);
        context.workspace_bytes = instance->workspace_bytes;
        instance->executable->run(views, made, context);
        return out.str();
    });
}

// The machine code that the engine runs for a source, written to `path`; returns "" or "failed: …".
const char* compiled(const char* entry, const char* text, const char* options, const char* path) {
    return guarded([&] {
        cuda::Source source;
        source.entry = entry, source.text = text;
        std::istringstream words(options);
        for (std::string word; words >> word;) source.options.push_back(word);
        const std::string cubin = cuda::compiled(source, 90)->cubin;
        std::ofstream(path, std::ios::binary) << cubin;
        return std::string();
    });
}
}
