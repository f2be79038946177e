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

// The nodes of a graph, and which of its extents are equal.
class Ground {
public:
    using Extents = std::vector<int64_t>;  // by class: all that are equal are one

    Ground(const Graph& graph, const Machine& machine);
    Ground(const Ground&) = delete;
    Ground& operator=(const Ground&) = delete;

    // Another graph with the same nodes, whose extents are equal where those of this one are, and nowhere else.
    struct Seen {
        Facts facts;
        Extents extents;
    };
    std::unique_ptr<const Seen> see(const Graph& graph, const Machine& machine) const;
    const Facts& facts() const { return facts_; }
    const Extents& extents() const { return extents_; }
    Questions take_questions() { return std::move(questions_); }  // that were asked of facts()

private:
    bool alike(const Graph& graph, std::vector<bool>& changed, Extents& extents) const;

    const Graph graph_;
    const Machine machine_;
    Questions questions_;
    const Facts facts_;
    Extents extents_;               // in order
    std::vector<uint8_t> classes_;  // of all extents of all values, one after another
    bool many_ = false;             // too many to tell apart
};

class Form {
public:
    // facts: of the graph that was planned; extents: its own, by the ground's classes.
    Form(std::shared_ptr<const Ground> ground, Plan plan, const Facts& facts, Questions asked,
         const Ground::Extents& extents);
    // What planned() would make of another graph that stands on this ground; nothing where it may be another plan.
    std::optional<Plan> again(const Ground::Seen& seen) const;

    const std::shared_ptr<const Ground> ground;
    const Plan plan;

private:
    bool same_answers(const Ground::Seen& seen) const;

    Questions questions_;  // classes stand for extents
    const std::vector<bool> small_, ordinary_;
    struct Piece {  // of a concat: which operand it is decides where it begins
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
    Plan keep(std::shared_ptr<const Ground> ground, Plan plan, const Facts& facts, Questions asked,
              const Ground::Extents& extents);

    static constexpr size_t most = 8;
    mutable std::mutex mutex_;
    std::vector<std::shared_ptr<const Form>> forms_;  // last used first
    int64_t made_ = 0;
};

}  // namespace transfuse
