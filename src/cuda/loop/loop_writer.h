// What the texts of elements and of rows share: places in memory, loads and stores in vectors, pointwise steps.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cuda/loop/loop.h"

namespace transfuse::cuda {

// What a thread takes.
struct LoopShape {
    int vector = 1;   // neighbours along the row
    int vectors = 1;  // of them at once: of the row, or vectors of elements a block apart
    int group = 1;    // threads that share a row
    int threads = 256;
    bool crosses = false;  // elements: a vector may reach into the next row
};

// A value in the text.
struct LoopValue {
    std::string name;
    Real real = Real::f32;
    std::string index;                     // "" of one value a row (or a vector), else the subscripts of its elements
    std::string pivot = {}, inverse = {};  // of a logsumexp: exp(x - name) is exp(x - pivot)·inverse (shares.h)
};

class LoopWriter {
public:
    LoopWriter(const Loop& loop, const Graph& graph, bool wide_index, bool any_size)
        : loop_(loop), graph_(graph), parameters_(wide_index, any_size) {}
    virtual ~LoopWriter() = default;

    // What a thread takes. False where a row does not fit into registers.
    virtual bool shape() = 0;
    Launch write();

protected:
    virtual int64_t blocks() const = 0;
    virtual std::string helpers() const { return ""; }  // device functions
    virtual void body() = 0;
    virtual std::string note() const = 0;

    bool flat(const LoopTensor& t) const;                // row and outer axes are one run of memory
    int chunk(const LoopTensor& t, bool is_flat) const;  // elements moved at once by one instruction
    int widest() const;                                  // elements of 16 bytes of the narrowest tensor
    void coordinates_of(const std::string& linear, const std::string& prefix);  // prefix0, prefix1, …
    std::string offset(const LoopTensor& t, const std::string& prefix, const std::string& along);
    std::string pointer(const LoopTensor& t, bool written);
    Real real_of_read(const LoopTensor& t) const { return real_of(graph_[t.value].type.dtype); }
    // The lanes of `to` from memory at `at`, `width` at once; and back.
    void load_vector(const std::string& to, const LoopTensor& t, const std::string& at, int width);
    void store_vector(const LoopTensor& t, const std::string& at, int width, const LoopValue& v,
                      const std::string& index);
    bool any_size() const { return parameters_.any_size(); }
    std::string constant(double value, Real real) {
        return any_size() ? parameters_.real(value, real == Real::f64) : literal(value, real);
    }
    // One pointwise step, element by element or once.
    void pointwise(ValueId id, std::map<ValueId, LoopValue>& values, const std::string& dims,
                   const std::vector<std::string>& loops, const std::string& subscript);

    const Loop& loop_;
    const Graph& graph_;
    Parameters parameters_;
    Body body_;
    LoopShape shape_;
};

std::unique_ptr<LoopWriter> element_writer(const Loop& loop, const Graph& graph, bool wide_index, bool any_size);
std::unique_ptr<LoopWriter> row_writer(const Loop& loop, const Graph& graph, bool wide_index, bool any_size);

}  // namespace transfuse::cuda
