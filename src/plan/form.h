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
    static constexpr int64_t unknown = -1;
    bool alike(const Graph& graph, std::vector<bool>& changed, Extents& extents) const;
    // One value; kin: it is known to be the same node.
    bool alike(ValueId v, const Node& node, bool kin, std::vector<bool>& changed, std::vector<bool>& grown,
               Extents& extents) const;

    const Graph graph_;
    const Machine machine_;
    Questions questions_;
    const Facts facts_;
    Extents extents_;               // in order
    std::vector<uint8_t> classes_;  // of all extents of all values, one after another
    std::vector<uint32_t> first_;   // where those of a value begin
    Extents of_parameters_;         // by class, where a value of parameters alone has it; else unknown
    bool many_ = false;             // too many to tell apart
};

class Form {
public:
    // facts: of the graph that was planned; extents: its own, by the ground's classes.
    Form(std::shared_ptr<const Ground> ground, Plan plan, const Facts& facts, Questions asked,
         const Ground::Extents& extents);
    // What planned() would make of another graph that stands on this ground; null where it may be another plan.
    std::unique_ptr<Plan> again(const Ground::Seen& seen) const;
    // A plan that again() made and nobody needs any more: the next one differs in few numbers, and need not be a copy.
    void give_back(std::unique_ptr<Plan> spare) const;

    const std::shared_ptr<const Ground> ground;
    const Plan plan;

private:
    bool same_answers(const Ground::Seen& seen) const;
    std::unique_ptr<Plan> take_spare() const;  // null: there is none

    Questions questions_;  // classes stand for extents
    const std::vector<bool> small_, ordinary_;
    struct Piece {  // of a concat: which operand it is decides where it begins
        size_t pass, store, operand;
    };
    std::vector<Piece> pieces_;
    mutable std::mutex mutex_;
    mutable std::unique_ptr<Plan> spare_;  // as `plan`, but for its graph, its costs and where pieces begin
};

// A plan for as long as it is needed; then its form has it back.
class LentPlan {
public:
    LentPlan(std::unique_ptr<Plan> plan, std::shared_ptr<const Form> from)
        : plan_(std::move(plan)), form_(std::move(from)) {}
    LentPlan(LentPlan&&) = default;
    ~LentPlan() {
        if (plan_ && form_) form_->give_back(std::move(plan_));
    }
    const Plan& operator*() const { return *plan_; }
    std::unique_ptr<Plan> keep() && { return std::move(plan_); }

private:
    std::unique_ptr<Plan> plan_;
    std::shared_ptr<const Form> form_;  // null: it was made anew
};

// Plans for many sizes of one program.
class Forms {
public:
    LentPlan lend(const Graph& rewritten, const Machine& machine);
    Plan plan(const Graph& rewritten, const Machine& machine) { return std::move(*lend(rewritten, machine).keep()); }
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
