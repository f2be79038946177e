// Every value finds its place, in topological order: inside a pass that has its operands if the rules allow it, else in
// a pass of its own.
#include <algorithm>

#include "plan/draft.h"
#include "plan/figures.h"

namespace transfuse {

Draft::Draft(const Facts& facts, const std::set<ValueId>& twice, const std::set<ValueId>& apart)
    : facts(facts), twice_(twice), apart_(apart) {
    const size_t n = static_cast<size_t>(facts.graph.size());
    home.assign(n, -1);
    view.assign(n, false);
    gathered.assign(n, false);
    const auto products = static_cast<size_t>(std::count(facts.product.begin(), facts.product.end(), true));
    slots_.reserve((products + 2) * n);  // for as many passes, mostly
    passes.reserve(products + 2), ancestors_.reserve(products + 2);
}

int Draft::open(DraftPass pass) {
    const size_t index = passes.size();
    passes.push_back(std::move(pass));
    slots_.resize(slots_.size() + home.size(), Slot::absent);
    ancestors_.emplace_back(index / 64 + 1, 0);
    for (auto& row : ancestors_) row.resize(index / 64 + 1, 0);
    return static_cast<int>(index);
}

bool Draft::can_read(int pass, ValueId v) const {
    bool can = true;
    each_source(v, [&](int source) { can = can && source != pass && !precedes(pass, source); });
    return can;
}

void Draft::depend(int pass, int on) {
    if (precedes(on, pass)) return;
    Few<uint64_t, 2> more = ancestors_[static_cast<size_t>(on)];
    more[static_cast<size_t>(on) / 64] |= uint64_t{1} << (on % 64);
    for (int other = 0; other < count(); ++other)
        if (other == pass || precedes(pass, other))
            for (size_t word = 0; word < more.size(); ++word)
                ancestors_[static_cast<size_t>(other)][word] |= more[word];
}

void Draft::read(int pass, ValueId v) {
    each_source(v, [&](int source) { depend(pass, source); });
}

void Draft::clone(ValueId v, int from, int to) {
    if (slot(to, v) != Slot::absent) return;
    for (ValueId a : facts.graph[v].args) {
        if (facts.literal[Facts::at(a)]) continue;
        if (slot(from, a) != Slot::absent)
            clone(a, from, to);
        else
            read(to, a);
    }
    const Slot place = slot(from, v);
    if (place == Slot::pooled) passes[static_cast<size_t>(to)].pooled = passes[static_cast<size_t>(from)].pooled;
    slots_[place_of(to, v)] = place;
}

void Draft::add(ValueId v, int p, Slot place) {
    for (ValueId a : facts.graph[v].args) {
        if (facts.literal[Facts::at(a)] || slot(p, a) != Slot::absent) continue;
        int from = -1;
        if (twin_slot(p, a, &from) != Slot::absent)
            clone(a, from, p);
        else
            read(p, a);
    }
    slots_[place_of(p, v)] = place;
    home[Facts::at(v)] = p;
    DraftPass& pass = passes[static_cast<size_t>(p)];
    if (place == Slot::pooled && pass.pooled.empty()) pass.pooled = facts.shape(v);
    const Node& node = facts.graph[v];
    if (place == Slot::tile && is_reduction(node.op) && pass.row.empty())
        if (const Sizes& dims = node.attributes.integers(Key::dims);
            pass.kind == PassKind::pointwise || (pass.kind == PassKind::dense && dims != Sizes{1}))
            pass.row = dims;
}

void Draft::assign() {
    for (ValueId v = 0; v < facts.graph.size(); ++v) {
        const Node& node = facts.graph[v];
        if (is_leaf(node.op) || facts.literal[Facts::at(v)]) continue;
        if (facts.parameter[Facts::at(v)]) {
            // Prepared, but for views of parameters, which need no memory of their own.
            const ValueId a = node.args.empty() ? -1 : node.args[0];
            view[Facts::at(v)] = is_view_op(node.op) && (is_leaf(facts.graph[a].op) || view[Facts::at(a)]) &&
                                 (node.op != Op::reshape || splits_only(facts.shape(a), node.type.shape));
            continue;
        }
        place(v);
    }
}

void Draft::place(ValueId v) {
    const Node& node = facts.graph[v];
    if (join(v, true) || (is_pointwise(node.op) && compute_twice(v)) || join(v, false)) return;
    if (place_view(v) || place_concat(v)) return;
    switch (node.op) {
        case Op::lattice:
            // One channel, summed over overlapping windows: no product worth the name.
            if (facts.literal[Facts::at(node.args[1])] && facts.shape(node.args[1])[0] == 1) break;
            return add(v, open({PassKind::dense, v, node.type.shape}), Slot::tile);
        case Op::correlate:
        case Op::covariance:
            return add(v, open({PassKind::correlate, v, node.type.shape}), Slot::grid);
        case Op::box_sums: {
            for (int p = 0; p < count(); ++p) {
                const DraftPass& pass = passes[static_cast<size_t>(p)];
                if (pass.kind == PassKind::moments && facts.graph[pass.anchor].args[0] == node.args[0])
                    return add(v, p, Slot::grid);
            }
            return add(v, open({PassKind::moments, v, facts.shape(node.args[0])}), Slot::grid);
        }
        default:
            break;
    }
    if ((is_pointwise(node.op) || is_reduction(node.op)) && join_loop(v)) return;
    place_small(v);
}

// A pass that has an operand and may take v: passes around a product before loops, later ones before earlier ones; but
// what is reduced over the grid, the earliest, since only a pass after that one can use it.
bool Draft::join(ValueId v, bool product) {
    const Node& node = facts.graph[v];
    auto has_operand = [&](int p) {
        return std::any_of(node.args.begin(), node.args.end(), [&](ValueId a) { return slot(p, a) != Slot::absent; });
    };
    int found = -1;
    for (int p = count(); p-- > 0;) {
        if ((passes[static_cast<size_t>(p)].kind != PassKind::pointwise) != product || !has_operand(p)) continue;
        const Slot place = fit(v, p);
        if (place == Slot::absent || (found >= 0 && place != Slot::grid)) continue;
        found = p;
        if (place != Slot::grid) break;
    }
    if (found >= 0) add(v, found, fit(v, found));
    return found >= 0;
}

bool Draft::place_view(ValueId v) {
    const Node& node = facts.graph[v];
    if (!is_view_op(node.op)) return false;
    const ValueId a = node.args[0];
    const bool computed = home[Facts::at(a)] >= 0;
    if (node.op == Op::reshape && computed && facts.output[Facts::at(v)]) {
        gathered[Facts::at(v)] = true;  // stored as the output's shape
        return true;
    }
    const bool buffer = computed && !facts.output[Facts::at(a)];
    if (node.op == Op::reshape && !buffer && !splits_only(facts.shape(a), node.type.shape)) {
        gathered[Facts::at(v)] = computed;
        return computed;
    }
    view[Facts::at(v)] = true;
    return true;
}

bool Draft::place_concat(ValueId v) {
    const Node& node = facts.graph[v];
    if (node.op != Op::concat) return false;
    gathered[Facts::at(v)] = true;
    for (ValueId a : node.args) {
        if (home[Facts::at(a)] >= 0) continue;
        const bool known = std::any_of(copies.begin(), copies.end(),
                                       [&](const Copy& copy) { return copy.piece == a && copy.target == v; });
        if (known) continue;
        const int p = open({PassKind::pointwise, a, facts.shape(a)});
        if (!facts.literal[Facts::at(a)]) read(p, a);
        copies.push_back({a, v, p});
    }
    return true;
}

// Bytes and product time of both ways, without what follows: far apart, they need no trial.
bool Draft::wants_twice(ValueId v, int p) {
    const Machine& machine = facts.machine;
    double stored = 0, product = 0, read = 0;
    for (ValueId a : facts.graph[v].args)
        if (slot(p, a) == Slot::tile || slot(p, a) == Slot::pooled) stored += facts.bytes(a);
    const DraftPass& pass = passes[static_cast<size_t>(p)];
    if (pass.kind == PassKind::dense) {
        product = facts.flops[Facts::at(pass.anchor)] * facts.padding[Facts::at(pass.anchor)] / machine.flops;
        if (product > 4 * stored / machine.bandwidth) {
            decisions.push_back({v, "stored and read again: the product takes far longer than that"});
            return false;
        }
    } else {
        std::vector<ValueId> seen;
        for (ValueId u = 0; u < facts.graph.size(); ++u) {
            if (slot(p, u) != Slot::tile) continue;
            for (ValueId a : facts.graph[u].args)
                if (!facts.literal[Facts::at(a)] && slot(p, a) == Slot::absent &&
                    !std::count(seen.begin(), seen.end(), a)) {
                    seen.push_back(a);
                    read += facts.read_bytes(a);
                }
        }
        if (read <= figures::plan::reread * stored && pass.row.empty()) {
            decisions.push_back({v, "computed twice: that reads no more than storing it would write"});
            return true;
        }
    }
    decisions.push_back({v});
    return twice_.count(v) > 0;
}

// v continues tile values of a pass and needs something that pass has to finish first.
bool Draft::compute_twice(ValueId v) {
    const Node& node = facts.graph[v];
    for (int p = count(); p-- > 0;) {
        const DraftPass& pass = passes[static_cast<size_t>(p)];
        if (pass.kind != PassKind::dense && (pass.kind != PassKind::pointwise || pass.small)) continue;
        bool continues = false, waits = false;
        for (ValueId a : node.args) {
            if (facts.literal[Facts::at(a)]) continue;
            const Slot place = slot(p, a);
            if (place == Slot::tile || place == Slot::pooled)
                continues = true;
            else if (place != Slot::absent || !can_read(p, a))
                waits = true;
        }
        if (!continues || !waits) continue;
        if (!wants_twice(v, p)) return false;
        DraftPass again{pass.kind, pass.anchor, pass.domain};
        again.origin = pass.origin >= 0 ? pass.origin : p;
        again.row = pass.row;
        const int second = open(std::move(again));
        depend(second, p);
        const Slot place = fit(v, second);
        if (place != Slot::absent) {
            add(v, second, place);
            return true;
        }
        passes[static_cast<size_t>(second)].alive = false;
        return false;
    }
    return false;
}

// A loop over the same elements that reads an operand of v already, or one of its own.
bool Draft::join_loop(ValueId v) {
    const Node& node = facts.graph[v];
    const bool reduction = is_reduction(node.op);
    const Sizes& domain = reduction ? facts.shape(node.args[0]) : node.type.shape;
    if (numel(domain) <= std::min(figures::plan::few_elements, facts.machine.tail_elements)) return false;
    auto reads = [&](int p, ValueId a) {
        const auto users = facts.users(a);
        return std::any_of(users.begin(), users.end(),
                           [&](ValueId u) { return slot(p, u) == Slot::tile || slot(p, u) == Slot::grid; });
    };
    for (int p = count(); p-- > 0;) {
        const DraftPass& pass = passes[static_cast<size_t>(p)];
        if (!pass.alive || pass.kind != PassKind::pointwise || pass.small || pass.domain != domain) continue;
        const bool shared = std::any_of(node.args.begin(), node.args.end(),
                                        [&](ValueId a) { return !facts.literal[Facts::at(a)] && reads(p, a); });
        if (!shared) continue;
        const Slot place = fit(v, p);
        if (place == Slot::absent) continue;
        add(v, p, place);
        return true;
    }
    const int p = open({PassKind::pointwise, reduction ? node.args[0] : v, domain});
    const Slot place = fit(v, p);
    add(v, p, place == Slot::absent ? Slot::grid : place);
    return true;
}

void Draft::place_small(ValueId v) {
    const Node& node = facts.graph[v];
    const bool small = facts.small(v) && std::all_of(node.args.begin(), node.args.end(), [&](ValueId a) {
                           return facts.elements[Facts::at(a)] <= facts.machine.tail_elements;
                       });
    if (!small) return add(v, open({PassKind::library, v, node.type.shape}), Slot::tile);
    for (int p = count(); p-- > 0;) {
        if (!passes[static_cast<size_t>(p)].small || fit(v, p) != Slot::tail) continue;
        return add(v, p, Slot::tail);
    }
    DraftPass pass{PassKind::pointwise, v, node.type.shape};
    pass.small = true;
    add(v, open(std::move(pass)), Slot::tail);
}

}  // namespace transfuse
