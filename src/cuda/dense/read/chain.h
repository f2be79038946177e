// The steps of a tile program as code on a thread's registers.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cuda/dense/read/epilogue.h"
#include "cuda/kernel/lines.h"

namespace transfuse::cuda {

std::string combined(Op op, const std::string& a, const std::string& b);  // one term more of a sum, maximum or minimum
std::string identity(Op op);                                              // what such a sum begins with

// A value that varies along channels and pixels is v[i][e]: i counts BATCH of the thread's rows, e VECTOR of its
// columns. Which of the two is the channel depends on the chunk's order. The text uses what its owner defines: CHANNEL
// and CHANNEL_OK of the channel's index; PN, PD, PH, PW and VALID of the pixel's; `table`, `image_table`, `operands`,
// `group`.
class Chain {
public:
    struct Kind {
        bool c = false, x = false;
    };  // what a value varies along: channels, pixels

    Chain(const Epilogue& epilogue, Lines& lines, bool pixel_major)
        : epilogue_(epilogue), t(lines), pixel_major_(pixel_major) {}
    virtual ~Chain() = default;

    void anchor();  // the accumulators become the convolution's result: its bias is added, unless it was before
    void steps(bool after);  // those before the pool, the folded reduction or the value handed over (all, where there
                             // is none), or those after it
    void begin_after_pool(const std::string& pooled);  // forgets what was computed inside the windows
    void unfold(const std::string& parts,
                const std::string& masses);  // the folded reduction, of what the product warps handed over

    void forget() {
        names_.clear(), kinds_.clear(), means_.clear(), exponentials_.clear();
    }  // what was named: the next scope begins anew

    std::string operand(ValueId a);  // the text of a value, loaded first where it must be
    Kind kind(ValueId a) const { return kinds_.at(a); }
    const std::string& name(ValueId a) const { return names_.at(a); }
    void define(ValueId a, const std::string& name, Kind kind) { names_[a] = name, kinds_[a] = kind; }
    std::string ref(const std::string& name, Kind kind) const;
    std::string dims(Kind kind) const;
    void loops(Kind kind) const;  // opens loops over all elements of such a value: one statement follows

protected:
    void step(ValueId v);
    void forget(ValueId a) { names_.erase(a), kinds_.erase(a); }
    virtual std::string columns() const { return "int e = 0; e < VECTOR; e++"; }
    std::string spelled(const Node& node, const std::vector<std::string>& args) const;
    // result[pixel] = `op` of `term` over all channels; declares it.
    virtual void across(const std::string& result, Op op, const std::string& term) = 0;
    // result[channel] = `op` of `term` over the outputs of the row; declares it.
    virtual void along(const std::string& result, Op op, const std::string& term);
    static constexpr Kind pixels{false, true}, rows{true, false};  // what is left of a value without its channels, and
                                                                   // without its columns
    // Declares {v}_exp[i][e] = exp(term − reference) and per pixel, or per row, {v}_mass, {v}_top with
    // Σ exp(term) = mass·exp(top), and {v}_share with exp(term − logsumexp) = {v}_exp·share.
    virtual void exponentials(const std::string& v, const std::string& term, Kind left);
    void exponentials_below(const std::string& v, const std::string& term, Kind left);  // {v}_exp, given {v}_top
    // Declared already: a thread's rows of a value that varies by image and channel.
    virtual void load_image_rows(const std::string& name, size_t read);
    // Declared already: the thread's channels of a table, where they are the columns.
    virtual void load_channels(const std::string& name, const std::string& from);
    // Declared already: the thread's elements of a tensor that varies by pixel.
    virtual void load_elements(const std::string& name, size_t read, Kind kind);
    std::string channel_var() const { return pixel_major_ ? "e" : "i"; }
    std::string pixel_var() const { return pixel_major_ ? "i" : "e"; }

    const Epilogue& epilogue_;
    Lines& t;
    const bool pixel_major_;

private:
    void load(ValueId a);
    void pointwise(ValueId v);
    void reduction(ValueId v);
    void reduce(const std::string& result, Op op, const std::string& term, Kind left) {
        left.x ? across(result, op, term) : along(result, op, term);
    }

    std::map<ValueId, Kind> kinds_;
    std::map<ValueId, std::string> names_;
    std::map<std::pair<ValueId, bool>, std::string> means_;  // of a value, over channels or along rows
    std::map<ValueId, ValueId> exponentials_;                // logsumexp -> its operand
};

}  // namespace transfuse::cuda
