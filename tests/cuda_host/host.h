// Runs assembled CUDA plans on the CPU: all their kernels are compiled with the C++ compiler (see shim.h) into one
// library, and each plan's launches are executed in order on poisoned memory.
#pragma once

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cuda/assemble/assemble.h"
#include "cuda/runtime/cache.h"
#include "cuda_host/guarded_memory.h"
#include "cuda_host/tensor_map.h"
#include "graph/layout.h"
#include "transfuse/error.h"
#include "transfuse/transfuse.h"

namespace transfuse::cuda {

// Strides of a tensor whose channels lie together.
inline Sizes channels_last(const Sizes& shape) {
    return shape.size() < 3 ? contiguous_strides(shape) : channels_last_strides(shape);
}

// Storage of any dtype from and to doubles.
inline uint16_t half_bits(float f) {
    uint32_t u;
    std::memcpy(&u, &f, 4);
    const uint32_t sign = (u >> 16) & 0x8000u;
    const float a = std::fabs(f);
    if (a != a) return static_cast<uint16_t>(sign | 0x7e00u);
    if (a >= 65520.0f) return static_cast<uint16_t>(sign | 0x7c00u);
    if (a < 6.103515625e-05f)
        return static_cast<uint16_t>(sign | static_cast<uint32_t>(std::nearbyint(a * 16777216.0f)));
    std::memcpy(&u, &a, 4);
    u += 0xfffu + ((u >> 13) & 1u);
    return static_cast<uint16_t>(sign | ((u >> 13) - (112u << 10)));
}
inline float half_value(uint16_t h) {
    const int e = (h >> 10) & 31, m = h & 1023;
    const float sign = h & 0x8000 ? -1.0f : 1.0f;
    if (e == 31) return m ? std::numeric_limits<float>::quiet_NaN() : sign * std::numeric_limits<float>::infinity();
    return sign * (e == 0 ? std::ldexp(static_cast<float>(m), -24) : std::ldexp(static_cast<float>(m + 1024), e - 25));
}
inline void put(void* memory, DType dtype, int64_t at, double value) {
    switch (dtype) {
        case DType::f64:
            static_cast<double*>(memory)[at] = value;
            break;
        case DType::f32:
            static_cast<float*>(memory)[at] = static_cast<float>(value);
            break;
        case DType::f16:
            static_cast<uint16_t*>(memory)[at] = half_bits(static_cast<float>(value));
            break;
        case DType::bf16: {
            const auto f = static_cast<float>(value);
            uint32_t u;
            std::memcpy(&u, &f, 4);
            u += 0x7fffu + ((u >> 16) & 1u);
            static_cast<uint16_t*>(memory)[at] = static_cast<uint16_t>(u >> 16);
        }
    }
}
inline double get(const void* memory, DType dtype, int64_t at) {
    switch (dtype) {
        case DType::f64:
            return static_cast<const double*>(memory)[at];
        case DType::f32:
            return static_cast<double>(static_cast<const float*>(memory)[at]);
        case DType::f16:
            return static_cast<double>(half_value(static_cast<const uint16_t*>(memory)[at]));
        case DType::bf16: {
            const uint32_t u = static_cast<uint32_t>(static_cast<const uint16_t*>(memory)[at]) << 16;
            float f;
            std::memcpy(&f, &u, 4);
            return static_cast<double>(f);
        }
    }
    return 0;
}

// Offsets of all elements in row-major order.
inline std::vector<int64_t> offsets(const Sizes& shape, const Sizes& strides) {
    std::vector<int64_t> list = {0};
    for (size_t a = 0; a < shape.size(); ++a) {
        std::vector<int64_t> next;
        next.reserve(list.size() * static_cast<size_t>(shape[a]));
        for (int64_t base : list)
            for (int64_t i = 0; i < shape[a]; ++i) next.push_back(base + i * strides[a]);
        list = std::move(next);
    }
    return list;
}

// As a kernel takes it: TensorMap of src/cuda/device/machine/hopper.cuh.
struct alignas(64) HostMap {
    HostBoxes boxes;
};
inline HostMap host_map(const Argument& argument, const char* base) {
    TmaTensor tensor;
    std::memcpy(&tensor, argument.data.data(), sizeof tensor);
    HostMap map{{base, static_cast<int>(bytes(tensor.dtype)), tensor.rounds_to_tf32, {}, {}, {}, tensor.swizzle}};
    for (size_t k = 0; k < 5; ++k) map.boxes.extent[k] = tensor.extent[k], map.boxes.box[k] = tensor.box[k];
    for (size_t k = 0; k < 4; ++k) map.boxes.stride[k] = tensor.stride[k];
    return map;
}

class HostKernels {
public:
    // The number of the kernel of a launch; equal sources share one.
    void add(const Launch& launch) {
        if (numbers_.contains(launch.source->text + launch.source->entry)) return;
        const auto k = numbers_.size();
        numbers_[launch.source->text + launch.source->entry] = k;
        std::string text = launch.source->text;
        const std::string extern_c = "extern \"C\" __global__";
        text.replace(text.find(extern_c), extern_c.size(), "static");
        const std::string dynamic = "extern __shared__ __align__(1024) unsigned char shared[];";
        if (const size_t at = text.find(dynamic); at != std::string::npos)
            text.replace(at, dynamic.size(), "unsigned char* const shared = tf_share(tf_host_shared_bytes);");
        const size_t begin = text.find(launch.source->entry + "(") + launch.source->entry.size() + 1,
                     end = text.find(") {", begin);
        std::string call, rest = text.substr(begin, end - begin);
        for (int i = 0; !rest.empty(); ++i) {
            const size_t comma = rest.find(", ");
            const std::string one = rest.substr(0, comma);
            rest = comma == std::string::npos ? "" : rest.substr(comma + 2);
            call +=
                (call.empty() ? "" : ", ") + ("*(" + one.substr(0, one.rfind(' ')) + "*)p[" + std::to_string(i) + "]");
        }
        const bool grid = text.find("    TF_CLUSTER_BARRIER();") != std::string::npos,
                   block = text.find("__syncthreads();") != std::string::npos ||
                           text.find("_sync(") != std::string::npos || text.find("__syncwarp") != std::string::npos;
        source_ += "namespace k" + std::to_string(k) +
                   " {\n#undef TF_FUNCTION\n#undef TF_SEQUENCE\n#undef TF_BESIDE\n#undef TF_AFTER\n#undef "
                   "TF_CLUSTER_BARRIER\n" +
                   text + "extern \"C\" void call" + std::to_string(k) +
                   "(void** p, int blocks, int threads, int shared) { tf_host_shared_bytes = shared; run_grid(blocks, "
                   "threads, " +
                   (grid || block ? "true" : "false") + ", " + (grid ? "true" : "false") + ", [&] { k" +
                   std::to_string(k) + "::" + launch.source->entry + "(" + call + "); }); }\n}\n";
    }

    // Kernels that were compiled before are found again by what they were made of, in a folder beside the build.
    void build(const std::string& shim_folder) {
        const std::string words =
            "c++ -std=c++17 -O0 -U_FORTIFY_SOURCE -w -Wno-psabi -fPIC -shared -ffp-contract=off -I" + shim_folder + " ";
        std::string made_of = words + machine();
        for (const char* header : {"shim.h", "machine.h", "tensor_map.h"})
            made_of += content(std::filesystem::path(shim_folder) / header);
#ifdef TRANSFUSE_BINARY_DIR
        const std::filesystem::path folder = TRANSFUSE_BINARY_DIR "/host-kernels";
#else
        const auto folder = std::filesystem::temp_directory_path() / "transfuse-host-kernels";
#endif
        std::filesystem::create_directories(folder);
        const auto library = folder / (hash_name(made_of + source_) + ".so");
        std::error_code ignored;
        const auto own = folder / (std::to_string(getpid()) + "-" + std::to_string(serial()++));
        if (!std::filesystem::exists(library)) {
            const std::string cpp = own.string() + ".cpp", made = own.string() + ".so";
            std::ofstream(cpp) << "#include \"" << precompiled(folder / hash_name(made_of), own, words) << "\"\n"
                               << source_;
            require(std::system((words + cpp + " -o " + made).c_str()) == 0,
                    "generated kernels do not compile as C++: ", cpp);
            std::filesystem::rename(made, library);  // who made the same meanwhile made the same
            if (!std::getenv("TRANSFUSE_KEEP_HOST_KERNELS")) std::filesystem::remove(cpp, ignored);
            forget_old(folder);
        } else {
            std::filesystem::last_write_time(library, std::filesystem::file_time_type::clock::now(), ignored);
        }
        library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
        require(library_ != nullptr, library.string(), " cannot be loaded: ", dlerror());
    }

    // Outputs as doubles in row-major order.
    std::vector<std::vector<double>> run(const Graph& graph, const Assembly& assembly,
                                         const std::vector<Sizes>& leaf_strides,
                                         const std::vector<Sizes>& output_strides,
                                         const std::vector<std::vector<double>>& leaves, size_t side = 0) {
        std::deque<GuardedMemory> blocks;
        // Every other one ends, rather than begins, where nothing may be read.
        const auto allocate = [&](size_t wanted) {
            return blocks
                .emplace_back(wanted,
                              blocks.size() % 2 == side ? GuardedMemory::Side::before : GuardedMemory::Side::behind)
                .begin();
        };
        auto extent_of = [](const Sizes& shape, const Sizes& strides) {
            int64_t far = 1;
            for (size_t a = 0; a < shape.size(); ++a) far += (shape[a] - 1) * strides[a];
            return static_cast<size_t>(std::max<int64_t>(far, 1));
        };
        std::vector<char*> leaf_memory, output_memory;
        for (size_t i = 0; i < graph.leaves().size(); ++i) {
            const Type& type = graph[graph.leaves()[i]].type;
            leaf_memory.push_back(
                allocate(extent_of(type.shape, leaf_strides[i]) * static_cast<size_t>(bytes(type.dtype))));
            const auto at = offsets(type.shape, leaf_strides[i]);
            for (size_t e = 0; e < at.size(); ++e) put(leaf_memory[i], type.dtype, at[e], leaves[i][e]);
        }
        for (size_t i = 0; i < graph.outputs().size(); ++i) {
            const Type& type = graph[graph.outputs()[i]].type;
            output_memory.push_back(
                allocate(extent_of(type.shape, output_strides[i]) * static_cast<size_t>(bytes(type.dtype))));
        }
        char *workspace = allocate(assembly.workspace_bytes), *kept = allocate(assembly.kept_bytes);
        for (const BoundLaunch& bound : assembly.launches) {
            const Launch& launch = bound.launch;
            std::vector<void*> pointers(launch.arguments.size()), parameters;
            std::vector<std::unique_ptr<HostMap>> maps;
            size_t next = 0;
            for (size_t i = 0; i < launch.arguments.size(); ++i) {
                const Argument& argument = launch.arguments[i];
                if (argument.kind == Argument::Kind::bytes) {
                    parameters.push_back(const_cast<std::byte*>(argument.data.data()));
                    continue;
                }
                const Address& address = bound.addresses[next++];
                char* base = address.kind == Address::Kind::leaf ? leaf_memory[static_cast<size_t>(address.position)]
                             : address.kind == Address::Kind::output
                                 ? output_memory[static_cast<size_t>(address.position)]
                             : address.kind == Address::Kind::kept ? kept
                                                                   : workspace;
                if (argument.kind == Argument::Kind::boxes) {
                    maps.push_back(std::make_unique<HostMap>(host_map(argument, base + address.offset)));
                    parameters.push_back(maps.back().get());
                    continue;
                }
                pointers[i] = base + address.offset;
                parameters.push_back(&pointers[i]);
            }
            const auto k = numbers_.at(launch.source->text + launch.source->entry);
            auto call = reinterpret_cast<void (*)(void**, int, int, int)>(
                dlsym(library_, ("call" + std::to_string(k)).c_str()));
            call(parameters.data(), static_cast<int>(launch.grid[0]), static_cast<int>(launch.block[0]),
                 static_cast<int>(launch.shared_bytes));
        }
        for (const GuardedMemory& block : blocks)
            require(block.untouched_around(), "memory around a tensor was written");
        std::vector<std::vector<double>> results;
        for (size_t i = 0; i < graph.outputs().size(); ++i) {
            const Type& type = graph[graph.outputs()[i]].type;
            results.emplace_back();
            for (int64_t at : offsets(type.shape, output_strides[i]))
                results.back().push_back(get(output_memory[i], type.dtype, at));
        }
        return results;
    }

private:
    // A header that is the shim, compiled before where the compiler can do that.
    static std::string precompiled(const std::filesystem::path& name, const std::filesystem::path& own,
                                   const std::string& words) {
        const std::string header = name.string() + ".h", compiled = header + ".gch";
        std::error_code ignored;
        if (!std::filesystem::exists(compiled)) {
            std::ofstream(own.string() + ".h") << "#include \"shim.h\"\n";
            std::filesystem::rename(own.string() + ".h", header);
            const std::string made = own.string() + ".gch";
            if (std::system((words + "-x c++-header " + header + " -o " + made).c_str()) == 0)
                std::filesystem::rename(made, compiled);
        }
        for (const std::string& file : {header, compiled})
            std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now(), ignored);
        return header;
    }
    static int& serial() {
        static int next = 0;
        return next;
    }
    static std::string content(const std::filesystem::path& file) {
        std::ifstream stream(file);
        return {std::istreambuf_iterator<char>(stream), {}};
    }
    // The compiler, and what it compiles for.
    static const std::string& machine() {
        static const std::string words = [] {
            std::string said;
            FILE* const pipe = popen("c++ --version; c++ -dumpmachine", "r");
            for (int c; pipe && (c = fgetc(pipe)) != EOF;) said += static_cast<char>(c);
            if (pipe) pclose(pipe);
            return said;
        }();
        return words;
    }
    // What nobody has asked for in a fortnight.
    static void forget_old(const std::filesystem::path& folder) {
        const auto since = std::filesystem::file_time_type::clock::now() - std::chrono::hours(14 * 24);
        std::error_code ignored;
        for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
            if (entry.last_write_time(ignored) < since && !ignored) std::filesystem::remove(entry.path(), ignored);
    }
    std::map<std::string, size_t> numbers_;
    std::string source_;
    void* library_ = nullptr;
};

}  // namespace transfuse::cuda
