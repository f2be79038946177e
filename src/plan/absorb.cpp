// Pointwise passes that only feed other passes move into them: as the prologue of a product, as operands of a tile
// program, or into a loop over the same elements.
#include <algorithm>

#include "plan/draft.h"

namespace transfuse {

// How `user`, a step of `pass`, reads a.
Draft::Use Draft::use(ValueId a, ValueId user, int p) const {
    const DraftPass& pass = passes[static_cast<size_t>(p)];
    const Node& node = facts.graph[user];
    const Slot place = slot(p, user);
    const bool product = (pass.kind == PassKind::dense && user == pass.anchor) || pass.kind == PassKind::moments ||
                         pass.kind == PassKind::correlate;
    if (product && (place == Slot::tile || place == Slot::grid)) {
        const size_t operands = node.op == Op::correlate ? 2 : 1;
        size_t as_operand = 0, in_all = 0;
        for (size_t i = 0; i < node.args.size(); ++i) {
            in_all += node.args[i] == a;
            as_operand += node.args[i] == a && i < operands;
        }
        return in_all == 1 && as_operand == 1 ? Use::prologue : Use::other;
    }
    if (pass.kind == PassKind::dense && (place == Slot::tile || place == Slot::pooled)) {
        const Sizes& grid = place == Slot::pooled ? pass.pooled : pass.domain;
        return is_pointwise(node.op) && facts.shape(a) == grid ? Use::tile : Use::other;
    }
    if (pass.kind == PassKind::pointwise && !pass.small && place != Slot::tail) return Use::loop;
    return Use::other;
}

// Takes v and what it is made of from a loop into another pass.
void Draft::carry(ValueId v, int from, int to, Slot place) {
    if (slot(to, v) != Slot::absent) return;
    for (ValueId a : facts.graph[v].args) {
        if (facts.literal[Facts::at(a)]) continue;
        if (slot(from, a) != Slot::absent)
            carry(a, from, to, place);
        else
            read(to, a);
    }
    slots_[static_cast<size_t>(to)][Facts::at(v)] = place;
}

// The values of a loop that other passes read only while they load a patch or a tile are computed there instead, where
// that moves fewer bytes: each reader takes the operands in place of the value. The loop itself goes if nothing else
// needs it.
void Draft::absorb_into_readers(int q) {
    struct Reader {
        int pass;
        ValueId value;
        Slot place;
    };
    struct Candidate {
        ValueId value;
        double reads;
        size_t first, count;  // of its readers
    };
    std::vector<Reader> readers;
    std::vector<Candidate> candidates;
    bool stays = !passes[static_cast<size_t>(q)].row.empty();
    for (ValueId v = 0; v < facts.graph.size(); ++v) {
        if (slot(q, v) == Slot::absent || home[Facts::at(v)] != q) continue;
        const size_t first = readers.size();
        bool movable = slot(q, v) == Slot::tile && !facts.output[Facts::at(v)], outside = facts.output[Facts::at(v)];
        for (ValueId user : facts.users(v)) {
            if (view[Facts::at(user)] || gathered[Facts::at(user)]) {
                movable = false;
                outside = true;
            }
            for (int p = 0; p < count(); ++p) {
                if (p == q || slot(p, user) == Slot::absent || slot(p, v) != Slot::absent) continue;
                outside = true;
                const Use how = use(v, user, p);
                movable = movable && (how == Use::prologue || how == Use::tile);
                readers.push_back({p, v, how == Use::prologue ? Slot::prologue : slot(p, user)});
            }
        }
        if (!outside && slot(q, v) == Slot::tile) continue;
        double reads = 0;
        std::vector<bool> seen(static_cast<size_t>(facts.graph.size()));
        movable = movable && readers.size() > first && movable_reads(v, q, seen, reads);
        for (size_t i = first; i < readers.size(); ++i)
            for (size_t j = 0; j < readers.size(); ++j)  // one place in a pass, for all that is carried there
                movable = movable && (readers[i].pass != readers[j].pass || readers[i].place == readers[j].place);
        if (movable)
            candidates.push_back({v, reads, first, readers.size() - first});
        else {
            stays = true;
            readers.resize(first);
        }
    }
    for (const Candidate& c : candidates) {
        const double k = static_cast<double>(c.count), written = facts.bytes(c.value);
        const bool better = stays ? k * c.reads < (k + 1) * written : k * c.reads <= c.reads + (k + 1) * written;
        if (!better) {
            stays = true;
            continue;
        }
        for (size_t i = c.first; i < c.first + c.count; ++i) carry(c.value, q, readers[i].pass, readers[i].place);
    }
}

// The bytes a reader of v has to read in its place; false where v cannot be computed element by element.
bool Draft::movable_reads(ValueId v, int q, std::vector<bool>& seen, double& bytes) const {
    if (!is_pointwise(facts.graph[v].op)) return false;
    for (ValueId a : facts.graph[v].args) {
        if (facts.literal[Facts::at(a)] || seen[Facts::at(a)]) continue;
        seen[Facts::at(a)] = true;
        if (slot(q, a) == Slot::absent)
            bytes += facts.bytes(a);
        else if (!movable_reads(a, q, seen, bytes))
            return false;
    }
    return true;
}

// A loop moves into a later loop over the same elements that reads its values, if nothing stands between them.
bool Draft::merge_loop(int q) {
    DraftPass& loop = passes[static_cast<size_t>(q)];
    for (int r = 0; r < count(); ++r) {
        DraftPass& other = passes[static_cast<size_t>(r)];
        if (r == q || !other.alive || other.kind != PassKind::pointwise || other.small || other.domain != loop.domain ||
            !precedes(q, r) || (!loop.row.empty() && !other.row.empty() && loop.row != other.row))
            continue;
        bool between = false;
        for (int p = 0; p < count(); ++p)
            between = between || (p != q && p != r && passes[static_cast<size_t>(p)].alive && precedes(q, p) && precedes(p, r));
        if (between) continue;
        bool reads = false, allowed = true;
        for (ValueId v = 0; v < facts.graph.size() && allowed; ++v) {
            const Slot place = slot(r, v);
            if (place == Slot::absent) continue;
            for (ValueId a : facts.graph[v].args) {
                if (slot(q, a) == Slot::absent || slot(r, a) != Slot::absent) continue;
                reads = true;
                allowed = allowed && slot(q, a) == Slot::tile && (place == Slot::tile || place == Slot::grid);
            }
        }
        // Copies of pieces are passes without values; what reads a view of q's memory needs it stored first.
        if (!reads || !allowed) continue;
        for (ValueId v = 0; v < facts.graph.size() && allowed; ++v) {
            if (slot(r, v) == Slot::absent) continue;
            for (ValueId a : facts.graph[v].args)
                if (slot(r, a) == Slot::absent && slot(q, a) == Slot::absent)
                    each_source(a, [&](int source) { allowed = allowed && source != q; });
        }
        if (!allowed) continue;
        for (ValueId v = 0; v < facts.graph.size(); ++v) {
            const Slot place = slot(q, v);
            if (place == Slot::absent) continue;
            if (slot(r, v) == Slot::absent) slots_[static_cast<size_t>(r)][Facts::at(v)] = place;
            if (home[Facts::at(v)] == q) home[Facts::at(v)] = r;
            slots_[static_cast<size_t>(q)][Facts::at(v)] = Slot::absent;
        }
        for (int p = 0; p < count(); ++p)
            if (p != r && precedes(q, p)) depend(p, r);
        for (int p = 0; p < count(); ++p)
            if (precedes(p, q) && p != r) depend(r, p);
        if (other.row.empty()) other.row = loop.row;
        loop.alive = false;
        return true;
    }
    return false;
}

void Draft::absorb() {
    for (int q = 0; q < count(); ++q) {
        const DraftPass& pass = passes[static_cast<size_t>(q)];
        if (!pass.alive || pass.small || pass.kind != PassKind::pointwise) continue;
        const bool copy = std::any_of(copies.begin(), copies.end(), [&](const Copy& c) { return c.pass == q; });
        if (copy) continue;
        if (!merge_loop(q)) absorb_into_readers(q);
    }
}

}  // namespace transfuse
