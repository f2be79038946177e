// What a code generator hands to the executable: source text, a launch shape, and arguments that say where each pointer
// comes from. Generators know nothing of modules or streams; the runtime knows nothing of graphs.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "cuda/kernel/strides.h"
#include "cuda/kernel/target.h"
#include "transfuse/engine.h"
#include "transfuse/error.h"
#include "transfuse/plan.h"

namespace transfuse::cuda {

// What is said of a kernel, to a reader or to find it again. Copies share it: all sizes that a kernel serves say the
// same.
class Words {
public:
    Words() = default;
    Words(std::string text) : text_(text.empty() ? nullptr : std::make_shared<const std::string>(std::move(text))) {}
    Words(const char* text) : Words(std::string(text)) {}
    const std::string& str() const {
        static const std::string none;
        return text_ ? *text_ : none;
    }
    operator const std::string&() const { return str(); }
    bool empty() const { return !text_; }
    size_t find(std::string_view part) const { return str().find(part); }
    bool operator==(const Words& other) const { return text_ == other.text_ || str() == other.str(); }
    friend std::ostream& operator<<(std::ostream& to, const Words& words) { return to << words.str(); }

private:
    std::shared_ptr<const std::string> text_;  // null: nothing is said
};

// One translation unit, and the one kernel in it. Equal sources are compiled once per process and cached on disk, so
// whatever changes from call to call (batch, lengths, strides) should be an argument and not part of the text.
struct Source {
    std::string entry;  // extern "C" name of the kernel
    std::string text;
    std::vector<std::string> options;  // added to -std=c++17 and the architecture
    bool operator==(const Source&) const = default;
};

// A tensor that a kernel reads box by box (Hopper's tensor maps): up to five axes, fastest first, neighbours along the
// first.
struct TmaTensor {
    DType dtype = DType::f32;
    bool rounds_to_tf32 = false;  // the copy rounds fp32 values on the way
    int8_t swizzle = 0;           // of a box in shared memory: 16-byte vectors of rows of 32, 64 or 128 bytes (1, 2, 3)
    std::array<int32_t, 5> extent{};
    std::array<int32_t, 5> box{};
    std::array<int64_t, 4> stride{};  // bytes, of axes 1 to 4; multiples of 16
};

// One kernel parameter: the address of a value's memory (a leaf's tensor, else an output's, else its buffer), of an
// output by position, an address in the pass's scratch, of a pass's packed weights, plain bytes, or the map of a tensor
// that lies at a value's address or in the scratch.
struct Argument {
    enum class Kind : uint8_t { value, output, scratch, packed, bytes, boxes } kind = Kind::bytes;
    bool whole = false;  // bytes: a whole number, which can be told
    // value: a leaf, an output or a buffer of the plan; output: the position; packed: the pass; boxes: as value, or the
    // tensor lies in the pass's scratch.
    ValueId value = -1;
    static constexpr ValueId in_scratch = -2;
    int64_t offset = 0;  // bytes added to the address
    int size = 8;        // bytes: how many (also the alignment, at most 16)
    std::array<std::byte, 96> data{};

    static Argument of_value(ValueId value, int64_t offset_bytes = 0) {
        Argument a;
        a.kind = Kind::value, a.value = value, a.offset = offset_bytes;
        return a;
    }
    static Argument of_boxes(ValueId value, int64_t offset_bytes, const TmaTensor& tensor) {
        Argument a = of(tensor);
        a.kind = Kind::boxes, a.value = value, a.offset = offset_bytes;
        return a;
    }
    static Argument of_output(int position, int64_t offset_bytes = 0) {
        Argument a;
        a.kind = Kind::output, a.value = position, a.offset = offset_bytes;
        return a;
    }
    static Argument of_scratch(int64_t offset_bytes) {
        Argument a;
        a.kind = Kind::scratch, a.offset = offset_bytes;
        return a;
    }
    static Argument of_packed(int pass) {
        Argument a;
        a.kind = Kind::packed, a.value = pass;
        return a;
    }
    template <class T>
    static Argument of(const T& plain) {
        static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 96);
        Argument a;
        a.size = sizeof(T), a.whole = std::is_integral_v<T>;
        std::memcpy(a.data.data(), &plain, sizeof(T));
        return a;
    }
};

using ArgumentList = std::vector<Argument>;

// The arguments of a launch, in order. Copies share them: those of the launch that prepares a deep network's weights
// are hundreds, the same for all sizes.
class Arguments {
public:
    Arguments() = default;
    Arguments(ArgumentList list) : list_(std::make_shared<const ArgumentList>(std::move(list))) {}
    Arguments(std::initializer_list<Argument> list) : Arguments(ArgumentList(list)) {}
    const Argument* begin() const { return list_ ? list_->data() : nullptr; }
    const Argument* end() const { return begin() + size(); }
    size_t size() const { return list_ ? list_->size() : 0; }
    const Argument& operator[](size_t i) const { return (*list_)[i]; }

private:
    std::shared_ptr<const ArgumentList> list_;  // null: none
};

struct Launch {
    std::shared_ptr<const Source> source;
    std::array<uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1};
    uint32_t cluster = 1;          // blocks per cluster along x
    uint32_t shared_bytes = 0;     // dynamic
    bool early = false;            // starts while its predecessor ends (the kernel waits with griddepcontrol)
    bool parameters_only = false;  // depends on params alone: skipped after the first run of a frozen executable
    Arguments arguments;
    Words note;  // for describe(): tile, roles, what it computes
};

// Where a pointer argument comes from at run time.
struct Address {
    enum class Kind : uint8_t { leaf, output, workspace, kept } kind;
    int position = 0;    // of the leaf or output
    int64_t offset = 0;  // bytes
    bool operator==(const Address&) const = default;
};

// A launch of an assembled plan.
struct BoundLaunch {
    Launch launch;
    std::vector<Address> addresses;  // of the pointer arguments, in order
    size_t pass = 0;
};

// The launches of one pass, in order, and the scratch memory they share (on top of the plan's buffers), which lives for
// this pass only.
struct Program {
    std::vector<Launch> launches;
    size_t scratch_bytes = 0;
    Words note;
};

struct TextCache;

// Everything a generator may know. strides: of every value that lies in memory (leaves, outputs, buffers), in elements,
// empty for the others.
struct Surroundings {
    const Plan& plan;
    const Pass& pass;
    const Strides& strides;
    Fp32Precision precision = Fp32Precision::strict;
    Target target;
    bool aligned = true;              // every value's memory begins on a 16-byte boundary
    std::string config;               // the pass's dense configuration in words; empty: the heuristic's best
    int number = -1;                  // of the pass
    TextCache* text_cache = nullptr;  // dense kernels that were written already; may be null
    const std::vector<bool>* parameters = nullptr;  // parameter_values of the plan's graph, where they are known
};

// The dense configurations a plan's passes were told to take, by number of the pass.
using DenseConfigs = std::map<size_t, std::string>;

}  // namespace transfuse::cuda
