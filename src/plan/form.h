// A plan's form: what of it no size decides, and what was asked about sizes while it was made. A graph of the same
// nodes for which all of this has the same answers has the same plan, which need not be made again.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "plan/facts.h"

namespace transfuse {

Plan planned(const Facts& facts);  // anew

class Form {
public:
    Form(const Graph& graph, const Machine& machine);
    const Plan& plan() const { return plan_; }
    Plan take() { return std::move(plan_); }           // where this form is of no use to others
    bool lasts() const { return !questions_.others; }  // all that was asked is known
    // What planned() would make of another graph; nothing where it may be another plan.
    std::optional<Plan> again(const Graph& graph, const Machine& machine) const;

private:
    using Extents = std::vector<int64_t>;  // by class: those of this form are different numbers
    bool alike(const Graph& graph, std::vector<bool>& changed, Extents& extents) const;
    bool same_answers(const Facts& facts, const Extents& extents) const;
    Sizes at(const Sizes& sizes, const Extents& extents) const;
    void find_classes();
    void find_pieces();

    const Graph graph_;
    const Machine machine_;
    Questions questions_;
    const Facts facts_;
    Plan plan_;
    Extents extents_;               // that values have, in order
    std::vector<uint8_t> classes_;  // of all extents of all values, one after another
    bool many_ = false;             // too many to tell apart
    struct Piece {                  // of a concat: which operand it is decides where it begins
        size_t pass, store, operand;
    };
    std::vector<Piece> pieces_;
};

// Plans for many sizes of one program.
class Forms {
public:
    Plan plan(const Graph& rewritten, const Machine& machine);
    int64_t made() const;  // plans that were made anew

private:
    static constexpr size_t most = 4;
    mutable std::mutex mutex_;
    std::vector<std::shared_ptr<const Form>> forms_;  // last used first
    int64_t made_ = 0;
};

}  // namespace transfuse
