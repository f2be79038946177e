// Passes under construction: which value stands in which pass, at which place, and which pass must come before which.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "plan/facts.h"

namespace transfuse {

// A value's place in a pass: its scope, with the tile values behind a pool kept apart.
enum class Slot : int8_t { absent = -1, prologue, tile, pooled, grid, tail };
Scope scope_of(Slot slot);

struct DraftPass {
    PassKind kind;
    ValueId anchor;
    Sizes domain;        // dense: the anchor's shape; loop: D
    Sizes pooled = {};   // dense: the grid behind the pool
    Sizes row = {};      // loop, dense: the axes of its row reductions
    bool small = false;  // pointwise with nothing but a tail
    int origin = -1;     // of a pass that computes the tile values of another one again: that one
    bool alive = true;
    std::string why = {};
};

// Statistics a value needs of the very tile values it continues: store them, or compute them again in a second pass.
// Where a glance tells which, the reason is given at once; the others are decided by planning both ways.
struct Decision {
    ValueId value;
    std::string reason = {};
};

class Draft {
public:
    // `twice`: values that continue tile values computed again; `apart`: pools that are passes of their own.
    Draft(const Facts& facts, const std::set<ValueId>& twice, const std::set<ValueId>& apart);

    // Gives every value its place, in topological order.
    void assign();
    // Pointwise passes whose values are only ever read while a patch or a tile is loaded move there.
    void absorb();

    const Facts& facts;
    std::vector<DraftPass> passes;
    std::vector<int> home;       // the first pass that computes the value; -1: none does
    std::vector<bool> view;      // read through its operand's memory
    std::vector<bool> gathered;  // a concat whose pieces are stored into it, a reshape its operand is stored as
    struct Copy {
        ValueId piece, target;
        int pass;
    };
    std::vector<Copy> copies;  // pieces of concats that lie in memory already
    std::vector<Decision> decisions;

    Slot slot(int pass, ValueId v) const { return slots_[place_of(pass, v)]; }
    int count() const { return static_cast<int>(passes.size()); }
    // Calls f(pass) for each pass that must be complete before v can be read from memory.
    template <class F>
    void each_source(ValueId v, F&& f) const;

private:
    // assign.cpp
    void place(ValueId v);
    bool place_view(ValueId v);
    bool place_concat(ValueId v);
    bool join(ValueId v, bool product);
    bool compute_twice(ValueId v);
    bool wants_twice(ValueId v, int pass);
    bool join_loop(ValueId v);
    void place_small(ValueId v);
    int open(DraftPass pass);
    void add(ValueId v, int pass, Slot slot);
    void clone(ValueId v, int from, int to);

    // fit.cpp: the slot v may take in the pass by the rules of fusion.h, or absent.
    Slot fit(ValueId v, int pass) const;
    bool pools(int pass) const;  // a pool with a chain before and behind it
    Slot fit_reduction(ValueId v, int pass, Slot operand) const;
    bool may_hold_rows(int pass) const;  // a dense pass
    Slot twin_slot(int pass, ValueId v, int* from = nullptr) const;

    // order
    bool precedes(int before, int after) const {
        return ancestors_[static_cast<size_t>(after)][static_cast<size_t>(before) / 64] >> (before % 64) & 1;
    }
    bool can_read(int pass, ValueId v) const;
    void read(int pass, ValueId v);
    void depend(int pass, int on);

    // absorb.cpp
    enum class Use : uint8_t { none, prologue, tile, loop, other };
    Use use(ValueId a, ValueId user, int pass) const;
    struct Reader {
        int pass;
        Slot place;  // where its copy of the value would stand
    };
    struct Move : Moved {
        Few<ValueId, 8> values;  // all that is made and read
        bool casts = false;      // reads a tensor of its shape in another dtype
        size_t first = 0;        // of its readers
    };
    bool of_rows(ValueId v, int pass) const;
    bool reads_any_dtype(int pass) const;
    bool movable(ValueId v, int pass, const std::vector<bool>& stored, Move& move) const;
    void find_homes();
    std::span<const ValueId> values_at_home(int pass) const {
        return {at_home_.data() + first_at_home_[static_cast<size_t>(pass)],
                at_home_.data() + first_at_home_[static_cast<size_t>(pass) + 1]};
    }
    void absorb_into_readers(int pass);
    void store_narrower(int pass);
    bool merge_loop(int loop);
    void carry(ValueId v, int from, int to, Slot place, const std::vector<bool>& stored);
    void read_pieces_in_place(ValueId concat);

    const std::set<ValueId>&twice_, &apart_;
    std::vector<ValueId> at_home_;  // by the pass that is their home, in order
    std::vector<size_t> first_at_home_;
    size_t place_of(int pass, ValueId v) const { return static_cast<size_t>(pass) * home.size() + Facts::at(v); }
    std::vector<Slot> slots_;                  // [pass][value]
    std::vector<Few<uint64_t, 2>> ancestors_;  // [pass] bit set of passes
};

template <class F>
void Draft::each_source(ValueId v, F&& f) const {
    const size_t i = Facts::at(v);
    if (home[i] >= 0) {
        f(home[i]);
    } else if (view[i]) {
        each_source(facts.graph[v].args[0], f);
    } else if (gathered[i]) {
        for (ValueId a : facts.graph[v].args) each_source(a, f);
        for (const Copy& copy : copies)
            if (copy.target == v) f(copy.pass);
    }
}

}  // namespace transfuse
