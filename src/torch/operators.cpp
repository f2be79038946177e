// The operators, registered through PyTorch's stable C ABI.
//
//     run(Tensor[] leaves, int program, SymInt[] sizes, int mode) -> Tensor[]
//     run_detached(…)         the same without a gradient of its own: for callers who see to gradients
//     run_one(Tensor[] leaves, int program, int mode) -> Tensor
//                             run_detached of a program of one result and no sizes: to take apart and make a list and
//                             two numbers less is a tenth of a small call
//     run_text(…)             the same with the program's text (exported models)
//     run_keeping(…, int[] keep) -> Tensor[]
//                             run_detached which gives, behind its results, what it keeps for a gradient. keep: see
//                             read_keep (transfuse/program.h)
//     run_backward(Tensor[] leaves, Tensor[] gradients, int program, SymInt[] sizes, int mode, int[] outputs,
//                  int[] wanted, int[] keep) -> Tensor[]
//                             gradients: one for each of outputs, then what run_keeping kept and the shared results
//     scratch(…), scratch_backward(…) -> int     the bytes that run and run_backward would take for themselves
//
// A program is passed by handle: a text of a few kilobytes would cost more than the call.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include <optional>
#include <span>

#include "torch/mode.h"
#include "torch/shim.h"
#include "torch/workspace.h"
#include "transfuse/error.h"
#include "transfuse/program.h"

namespace transfuse {
namespace {

using namespace torch_face;

DType dtype_of(AtenTensorHandle tensor) {
    static const int32_t f32 = aoti_torch_dtype_float32(), f64 = aoti_torch_dtype_float64(),
                         f16 = aoti_torch_dtype_float16(), bf16 = aoti_torch_dtype_bfloat16();
    int32_t dtype = 0;
    check(aoti_torch_get_dtype(tensor, &dtype), "get_dtype");
    if (dtype == f32) return DType::f32;
    if (dtype == f64) return DType::f64;
    if (dtype == f16) return DType::f16;
    if (dtype == bf16) return DType::bf16;
    fail("tensors of float64, float32, float16 or bfloat16 are supported, got one of another dtype");
}

int32_t torch_dtype(DType dtype) {
    switch (dtype) {
        case DType::f64:
            return aoti_torch_dtype_float64();
        case DType::f32:
            return aoti_torch_dtype_float32();
        case DType::f16:
            return aoti_torch_dtype_float16();
        case DType::bf16:
            return aoti_torch_dtype_bfloat16();
    }
    fail("unknown dtype");
}

void describe(const Tensor& tensor, TensorView& view) {
    AtenTensorHandle handle = tensor.get();
    view.dtype = dtype_of(handle);
    int64_t rank = 0;
    int64_t *sizes = nullptr, *strides = nullptr;
    check(aoti_torch_get_dim(handle, &rank), "dim");
    check(aoti_torch_get_sizes(handle, &sizes), "sizes");
    check(aoti_torch_get_strides(handle, &strides), "strides");
    check(aoti_torch_get_data_ptr(handle, &view.data), "data_ptr");
    view.shape.assign(sizes, sizes + rank);
    view.strides.assign(strides, strides + rank);
}

Place place_of(const Tensor& tensor) {
    Place place;
    check(aoti_torch_get_device_type(tensor.get(), &place.type), "device_type");
    check(aoti_torch_get_device_index(tensor.get(), &place.index), "device_index");
    return place;
}

// The views of a call, kept by each thread for its next one: their sizes and strides then need no allocations.
struct Views {
    std::vector<TensorView> leaves, outputs;
};

Views& views_here() {
    thread_local Views views;
    return views;
}

void describe(const std::vector<Tensor>& tensors, const Place& place, std::span<TensorView> views) {
    for (size_t i = 0; i < tensors.size(); ++i) {
        require(place_of(tensors[i]) == place, "Expected all tensors to be on the same device");
        describe(tensors[i], views[i]);
    }
}

std::vector<Tensor> execute(const Instance& instance, const Place& place, int64_t mode) {
    std::vector<Tensor> outputs;
    Views& views = views_here();
    outputs.reserve(instance.output_types.size());
    views.outputs.resize(instance.output_types.size());
    for (size_t i = 0; i < instance.output_types.size(); ++i) {
        const Type& type = instance.output_types[i];
        outputs.push_back(empty(type.shape, instance.output_strides[i], torch_dtype(type.dtype), place));
        TensorView& view = views.outputs[i];
        view.dtype = type.dtype, view.shape = type.shape, view.strides = instance.output_strides[i];
        check(aoti_torch_get_data_ptr(outputs.back().get(), &view.data), "data_ptr");
    }
    RunContext context;
    std::optional<Workspace> workspace;
    context.workspace_bytes = instance.executable->workspace_bytes_for(views.leaves, views.outputs);
    const bool on_cuda = place.type == aoti_torch_device_type_cuda();
    if (on_cuda) context.stream = current_stream(place.index);  // the executable makes its device current itself
    if (context.workspace_bytes > 0)
        context.workspace =
            workspace.emplace(context.workspace_bytes, place, context.stream, (mode & mode_bits::own_memory) == 0)
                .data();
    if (!on_cuda) {
        uint32_t threads = 0;
        check(torch_get_num_threads(&threads), "get_num_threads");
        context.threads = static_cast<int>(threads);
    }
    instance.executable->run(views.leaves, views.outputs, context);
    return outputs;
}

CallMode call_mode(int64_t mode, const Place& place, int64_t tf32 = mode_bits::tf32) {
    CallMode call;
    call.freeze = (mode & mode_bits::freeze) != 0;
    call.inference = (mode & mode_bits::inference) != 0;
    call.autotune = (mode & mode_bits::autotune) != 0;
    call.lean = (mode & mode_bits::lean) != 0;
    call.precision = (mode & tf32) != 0 ? Fp32Precision::tf32 : Fp32Precision::strict;
    if (call.precision == Fp32Precision::tf32) call.products = static_cast<int>(mode >> mode_bits::products_shift);
    const bool on_cuda = place.type == aoti_torch_device_type_cuda();
    call.engine = on_cuda ? Engine::cuda : (mode & mode_bits::reference) != 0 ? Engine::reference : Engine::cpu;
    call.device = on_cuda ? place.index : 0;
    return call;
}

// What runs on the tensors that this thread's views now show, and where.
struct Prepared {
    Place place;
    std::shared_ptr<const Instance> instance;
    int64_t mode;
};

Prepared prepare(Program& program, const std::vector<Tensor>& leaves, const std::vector<int64_t>& sizes, int64_t mode,
                 std::span<const int64_t> keep = {}) {
    require(!leaves.empty(), "transfuse::run needs a tensor");
    const Place place = place_of(leaves.front());
    std::vector<TensorView>& views = views_here().leaves;
    views.resize(leaves.size());
    describe(leaves, place, views);
    CallMode call = call_mode(mode, place);
    call.keep = read_keep(keep);
    return {place, program.forward(views, sizes, call), mode};
}

Prepared prepare_backward(const std::vector<Tensor>& leaves, const std::vector<Tensor>& gradients, int64_t handle,
                          const std::vector<int64_t>& sizes, int64_t mode, const std::vector<int64_t>& outputs,
                          const std::vector<int64_t>& wanted, const std::vector<int64_t>& keep) {
    require(!leaves.empty(), "transfuse::run_backward needs a tensor");
    const Place place = place_of(leaves.front());
    std::vector<TensorView>& views = views_here().leaves;
    views.resize(leaves.size() + gradients.size());
    const std::span<TensorView> own(views.data(), leaves.size()), given(views.data() + leaves.size(), gradients.size());
    describe(leaves, place, own);
    describe(gradients, place, given);
    GradientRequest request;
    request.outputs.assign(outputs.begin(), outputs.end());
    request.wrt.assign(wanted.begin(), wanted.end());
    CallMode call = call_mode(mode, place, mode_bits::tf32_backward);
    call.keep = read_keep(keep);
    return {place, program(handle)->backward(own, given, sizes, call, request), mode};
}

std::vector<Tensor> execute(const Prepared& call) {
    try {
        return execute(*call.instance, call.place, call.mode);
    } catch (const std::bad_alloc&) {
        throw OutOfMemory("a call on the CPU");
    }
}

std::vector<Tensor> run(const std::vector<Tensor>& leaves, int64_t handle, const std::vector<int64_t>& sizes,
                        int64_t mode) {
    return execute(prepare(*program(handle), leaves, sizes, mode));
}

std::vector<Tensor> run_keeping(const std::vector<Tensor>& leaves, int64_t handle, const std::vector<int64_t>& sizes,
                                int64_t mode, const std::vector<int64_t>& keep) {
    return execute(prepare(*program(handle), leaves, sizes, mode, keep));
}

Tensor run_one(const std::vector<Tensor>& leaves, int64_t handle, int64_t mode) {
    const Prepared call = prepare(*program(handle), leaves, {}, mode);
    require(call.instance->output_types.size() == 1, "transfuse::run_one: the program gives ",
            call.instance->output_types.size(), " tensors");
    return std::move(execute(call).front());
}

std::vector<Tensor> run_text(const std::vector<Tensor>& leaves, const std::string& text,
                             const std::vector<int64_t>& sizes, int64_t mode) {
    return execute(prepare(*program(define_program(text)), leaves, sizes, mode));
}

std::vector<Tensor> run_backward(const std::vector<Tensor>& leaves, const std::vector<Tensor>& gradients,
                                 int64_t handle, const std::vector<int64_t>& sizes, int64_t mode,
                                 const std::vector<int64_t>& outputs, const std::vector<int64_t>& wanted,
                                 const std::vector<int64_t>& keep) {
    return execute(prepare_backward(leaves, gradients, handle, sizes, mode, outputs, wanted, keep));
}

// PyTorch's own outputs begin on more than 16 bytes.
int64_t scratch_of(const Prepared& call) {
    return static_cast<int64_t>(call.instance->executable->workspace_bytes_for(views_here().leaves, {}));
}

int64_t scratch(const std::vector<Tensor>& leaves, int64_t handle, const std::vector<int64_t>& sizes, int64_t mode,
                const std::vector<int64_t>& keep) {
    return scratch_of(prepare(*program(handle), leaves, sizes, mode, keep));
}

int64_t scratch_backward(const std::vector<Tensor>& leaves, const std::vector<Tensor>& gradients, int64_t handle,
                         const std::vector<int64_t>& sizes, int64_t mode, const std::vector<int64_t>& outputs,
                         const std::vector<int64_t>& wanted, const std::vector<int64_t>& keep) {
    return scratch_of(prepare_backward(leaves, gradients, handle, sizes, mode, outputs, wanted, keep));
}

}  // namespace
}  // namespace transfuse

STABLE_TORCH_LIBRARY(transfuse, m) {
    m.def("run(Tensor[] leaves, int program, SymInt[] sizes, int mode) -> Tensor[]");
    m.def("run_detached(Tensor[] leaves, int program, SymInt[] sizes, int mode) -> Tensor[]");
    m.def("run_keeping(Tensor[] leaves, int program, SymInt[] sizes, int mode, int[] keep) -> Tensor[]");
    m.def("run_one(Tensor[] leaves, int program, int mode) -> Tensor");
    m.def("run_text(Tensor[] leaves, str program, SymInt[] sizes, int mode) -> Tensor[]");
    m.def(
        "run_backward(Tensor[] leaves, Tensor[] gradients, int program, SymInt[] sizes, int mode, int[] outputs, int[] "
        "wanted, int[] keep) -> Tensor[]");
    m.def("scratch(Tensor[] leaves, int program, SymInt[] sizes, int mode, int[] keep) -> int");
    m.def(
        "scratch_backward(Tensor[] leaves, Tensor[] gradients, int program, SymInt[] sizes, int mode, int[] outputs, "
        "int[] wanted, int[] keep) -> int");
}

STABLE_TORCH_LIBRARY_IMPL(transfuse, CPU, m) {
    m.impl("run", TORCH_BOX(&transfuse::run));
    m.impl("run_detached", TORCH_BOX(&transfuse::run));
    m.impl("run_keeping", TORCH_BOX(&transfuse::run_keeping));
    m.impl("run_one", TORCH_BOX(&transfuse::run_one));
    m.impl("run_text", TORCH_BOX(&transfuse::run_text));
    m.impl("run_backward", TORCH_BOX(&transfuse::run_backward));
    m.impl("scratch", TORCH_BOX(&transfuse::scratch));
    m.impl("scratch_backward", TORCH_BOX(&transfuse::scratch_backward));
}

STABLE_TORCH_LIBRARY_IMPL(transfuse, CUDA, m) {
    m.impl("run", TORCH_BOX(&transfuse::run));
    m.impl("run_detached", TORCH_BOX(&transfuse::run));
    m.impl("run_keeping", TORCH_BOX(&transfuse::run_keeping));
    m.impl("run_one", TORCH_BOX(&transfuse::run_one));
    m.impl("run_text", TORCH_BOX(&transfuse::run_text));
    m.impl("run_backward", TORCH_BOX(&transfuse::run_backward));
    m.impl("scratch", TORCH_BOX(&transfuse::scratch));
    m.impl("scratch_backward", TORCH_BOX(&transfuse::scratch_backward));
}
