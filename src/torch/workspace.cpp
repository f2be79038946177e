#include "torch/workspace.h"

#include "transfuse/engine.h"

namespace transfuse::torch_face {

namespace {

constexpr intptr_t alignment = 256;
constexpr size_t most_kept = size_t{1} << 20;  // what PyTorch's allocator cuts out of its smallest segments

void give_back(void* memory) {
    static const auto release = of_torch_cuda<AOTITorchError(void*)>("aoti_torch_cuda_caching_allocator_raw_delete");
    if (memory != nullptr) release(memory);
}

// Of the calling thread: two threads may call on one stream, and neither's launches are all behind the other's.
struct Kept {
    void* memory = nullptr;
    size_t bytes = 0;
    int32_t device = -1;
    void* stream = nullptr;

    ~Kept() { give_back(memory); }
};

Kept& kept_here() {
    thread_local Kept kept;
    return kept;
}

}  // namespace

Workspace::Workspace(size_t bytes, const Place& place, void* stream, bool may_keep) {
    if (place.type == aoti_torch_device_type_cuda()) take_from_cuda(bytes, place.index, stream, may_keep);
    if (data_ != nullptr) return;
    tensor_ = empty({static_cast<int64_t>(bytes) + alignment}, {1}, aoti_torch_dtype_uint8(), place);
    check(aoti_torch_get_data_ptr(tensor_->get(), &data_), "data_ptr");
    data_ = reinterpret_cast<void*>((reinterpret_cast<intptr_t>(data_) + alignment - 1) / alignment * alignment);
}

Workspace::~Workspace() { give_back(raw_); }

void Workspace::take_from_cuda(size_t bytes, int32_t device, void* stream, bool may_keep) {
    static const auto allocate =
        of_torch_cuda<AOTITorchError(uint64_t, void**)>("aoti_torch_cuda_caching_allocator_raw_alloc");
    int32_t current = -1;
    if (allocate == nullptr || aoti_torch_get_current_device_index(&current) != AOTI_TORCH_SUCCESS) return;
    if (current != device) return;
    const auto what = [&] { return std::to_string(bytes) + " bytes of scratch"; };
    // A graph being captured keeps the addresses of its own memory, and is replayed on any stream.
    if (!may_keep || bytes > most_kept || cuda_captures(stream)) {
        check_memory(allocate(bytes, &raw_), what);  // its blocks begin at multiples of 512
        data_ = raw_;
        return;
    }
    Kept& kept = kept_here();
    if (kept.bytes < bytes || kept.device != device || kept.stream != stream) {
        void* memory = nullptr;
        check_memory(allocate(bytes, &memory), what);
        give_back(kept.memory);
        kept.memory = memory, kept.bytes = bytes, kept.device = device, kept.stream = stream;
    }
    data_ = kept.memory;
}

}  // namespace transfuse::torch_face
