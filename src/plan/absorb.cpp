// Pointwise passes that only feed other passes move into them: as the prologue of a product, as operands of a tile
// program, or into a loop over the same elements.
#include <algorithm>

#include "plan/draft.h"
#include "plan/fusion.h"

namespace transfuse {

// How `user`, a step of `pass`, reads a.
Draft::Use Draft::use(ValueId a, ValueId user, int p) const {
    const DraftPass& pass = passes[static_cast<size_t>(p)];
    const Node& node = facts.graph[user];
    const Slot place = slot(p, user);
    const bool product = (pass.kind == PassKind::dense && user == pass.anchor) || pass.kind == PassKind::moments ||
                         pass.kind == PassKind::correlate || (pools(p) && user == pass.anchor);
    if (product && (place == Slot::tile || place == Slot::grid)) {
        if (node.op == Op::correlate) return Use::other;  // each tap would compute its operands again
        const bool once = std::count(node.args.begin(), node.args.end(), a) == 1;
        return once && node.args[0] == a ? Use::prologue : Use::other;  // once, and as the patch that is loaded
    }
    if (pass.kind == PassKind::dense && place == Slot::tile)
        return is_pointwise(node.op) && facts.shape(a) == pass.domain ? Use::tile : Use::other;
    if (pass.kind == PassKind::pointwise && !pass.small && place != Slot::tail) return Use::loop;
    return Use::other;
}

// Takes v and what it is made of from one pass into another, as far as it is not stored there.
void Draft::carry(ValueId v, int from, int to, Slot place, const std::vector<bool>& stored) {
    if (slot(to, v) != Slot::absent) return;
    for (ValueId a : facts.graph[v].args) {
        if (facts.literal[Facts::at(a)]) continue;
        if (slot(from, a) != Slot::absent && !stored[Facts::at(a)])
            carry(a, from, to, place, stored);
        else
            read(to, a);
    }
    slots_[place_of(to, v)] = place;
}

// A statistic of rows, one number each: what a reader of normalised rows can read in their place.
bool Draft::of_rows(ValueId v, int q) const {
    const DraftPass& pass = passes[static_cast<size_t>(q)];
    const Sizes& shape = facts.shape(v);
    if (pass.kind != PassKind::pointwise || pass.row.empty() || shape.size() != pass.domain.size()) return false;
    return std::all_of(pass.row.begin(), pass.row.end(),
                       [&](int64_t axis) { return shape[static_cast<size_t>(axis)] == 1; });
}

// What a reader of v has to read and do in its place; false where v cannot be computed element by element.
bool Draft::movable(ValueId v, int q, const std::vector<bool>& stored, Move& move) const {
    if (!is_pointwise(facts.graph[v].op)) return false;
    move.values.push_back(v);
    move.made.push_back(v);
    for (ValueId a : facts.graph[v].args) {
        if (facts.literal[Facts::at(a)] || std::count(move.values.begin(), move.values.end(), a)) continue;
        const bool kept = slot(q, a) == Slot::tile && !stored[Facts::at(a)] && of_rows(a, q);
        if (kept) move.kept.push_back(a);
        if (slot(q, a) == Slot::absent || stored[Facts::at(a)] || kept) {
            move.values.push_back(a);
            move.read.push_back(a);
            move.casts = move.casts || (facts.shape(a) == facts.shape(move.values.front()) &&
                                        facts.graph[a].type.dtype != facts.graph[move.values.front()].type.dtype);
        } else if (!movable(a, q, stored, move)) {
            return false;
        }
    }
    return true;
}

// A thin product, or a pool, with nothing but pointwise steps around it takes x element by element.
bool Draft::reads_any_dtype(int p) const {
    if (facts.machine.prologue_casts) return true;
    const ValueId anchor = passes[static_cast<size_t>(p)].anchor;
    if (passes[static_cast<size_t>(p)].kind != PassKind::dense || !facts.takes_elements(anchor)) return false;
    for (ValueId v = 0; v < facts.graph.size(); ++v) {
        const Slot place = slot(p, v);
        const bool element = place == Slot::prologue || place == Slot::tile;
        if (place != Slot::absent && !(element && (v == anchor || is_pointwise(facts.graph[v].op)))) return false;
    }
    return true;
}

// Values that other passes read only while they load a patch or a tile are computed there instead, where that moves
// fewer bytes: each reader takes the operands (of a loop) or a value stored anyway (x beside relu(x)) in place of the
// value. A loop goes if nothing else needs it. Of normalised rows that only pools read, windows side by side, the loop
// stores the statistics, and each window normalises what it takes: no element is read twice.
void Draft::absorb_into_readers(int q) {
    Few<Reader, 16> readers;
    std::vector<Move> moves;
    std::vector<bool> stored(static_cast<size_t>(facts.graph.size()));
    const DraftPass& pass = passes[static_cast<size_t>(q)];
    bool stays = pass.kind != PassKind::pointwise || !pass.row.empty();
    for (ValueId v : values_at_home(q)) {
        if (home[Facts::at(v)] != q || slot(q, v) == Slot::absent) continue;
        const bool tile = slot(q, v) == Slot::tile || slot(q, v) == Slot::pooled;
        Move move;
        move.first = readers.size();
        bool outside = facts.output[Facts::at(v)], moves_on = tile && !outside;
        for (ValueId user : facts.users(v)) {
            if (view[Facts::at(user)] || gathered[Facts::at(user)]) outside = true, moves_on = false;
            for (int p = 0; p < count(); ++p) {
                if (p == q || slot(p, user) == Slot::absent || slot(p, v) != Slot::absent) continue;
                outside = true;
                const Use how = use(v, user, p);
                moves_on = moves_on && (how == Use::prologue || how == Use::tile);
                readers.push_back({p, how == Use::prologue ? Slot::prologue : slot(p, user)});
            }
        }
        if (!outside && tile) continue;
        moves_on = moves_on && readers.size() > move.first && movable(v, q, stored, move);
        for (size_t i = move.first; i < readers.size() && !move.kept.empty(); ++i)
            moves_on = moves_on && readers[i].place == Slot::prologue &&
                       tile_pool(facts.graph, passes[static_cast<size_t>(readers[i].pass)].anchor);
        for (size_t i = move.first; i < readers.size() && moves_on; ++i) {
            const Reader& reader = readers[i];
            if (move.casts && reader.place == Slot::prologue && !reads_any_dtype(reader.pass)) moves_on = false;
            for (const Reader& other : readers)  // one place in a pass, for all that is carried there
                moves_on = moves_on && (other.pass != reader.pass || other.place == reader.place);
            for (ValueId a : move.values)
                moves_on = moves_on && (slot(q, a) == Slot::absent || stored[Facts::at(a)] ||
                                        slot(reader.pass, a) == Slot::absent || slot(reader.pass, a) == reader.place);
        }
        if (moves_on) {
            move.readers = readers.size() - move.first;
            moves.push_back(std::move(move));
        } else {
            stays = stored[Facts::at(v)] = true;
            readers.erase(readers.begin() + move.first, readers.end());
        }
    }
    for (Move& move : moves) {
        move.stays = stays;
        const std::span<const Reader> own(readers.data() + move.first, move.readers);
        for (const Reader& reader : own) {
            const DraftPass& loading = passes[static_cast<size_t>(reader.pass)];
            if (reader.place == Slot::prologue && loading.kind == PassKind::dense)
                move.products.push_back(loading.anchor);
        }
        if (facts.gain(move) <= 0) {
            stays = true;
            continue;
        }
        for (ValueId a : move.kept) stored[Facts::at(a)] = true;
        for (const Reader& reader : own) carry(move.made.front(), q, reader.pass, reader.place, stored);
    }
}

// What a pass widened from 16 bits is stored as those, and widened again where it is read: half the bytes, no rounding.
void Draft::store_narrower(int q) {
    for (ValueId v : values_at_home(q)) {
        const Node& node = facts.graph[v];
        const Slot own = slot(q, v);
        if (node.op != Op::cast || facts.output[Facts::at(v)] || (own != Slot::tile && own != Slot::pooled)) continue;
        const ValueId narrow = node.args[0];
        if (facts.bytes(narrow) >= facts.bytes(v) || home[Facts::at(narrow)] != q || slot(q, narrow) != own) continue;
        Few<Reader, 16> readers;
        bool all = true;
        for (ValueId user : facts.users(v)) {
            all = all && !view[Facts::at(user)] && !gathered[Facts::at(user)];
            for (int p = 0; p < count() && all; ++p) {
                if (p == q || slot(p, user) == Slot::absent || slot(p, v) != Slot::absent) continue;
                const Use how = use(v, user, p);
                const bool loop = how == Use::loop && facts.shape(v) == passes[static_cast<size_t>(p)].domain;
                const bool before = how == Use::prologue || slot(p, user) == Slot::prologue;
                const Slot place = loop ? Slot::tile : before ? Slot::prologue : slot(p, user);
                all = loop || (before ? reads_any_dtype(p) : how == Use::tile);
                for (const Reader& other : readers) all = all && (other.pass != p || other.place == place);
                readers.push_back({p, place});
            }
        }
        for (size_t i = 0; i < readers.size() && all; ++i) {
            read(readers[i].pass, narrow);
            slots_[place_of(readers[i].pass, v)] = readers[i].place;
        }
    }
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
            between = between ||
                      (p != q && p != r && passes[static_cast<size_t>(p)].alive && precedes(q, p) && precedes(p, r));
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
            if (slot(r, v) == Slot::absent) slots_[place_of(r, v)] = place;
            if (home[Facts::at(v)] == q) home[Facts::at(v)] = r;
            slots_[place_of(q, v)] = Slot::absent;
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

// A concat of channels that is only read while patches are loaded is not gathered at all: each channel is read where
// its piece lies.
void Draft::read_pieces_in_place(ValueId c) {
    const Node& node = facts.graph[c];
    if (node.op != Op::concat || !gathered[Facts::at(c)] || facts.output[Facts::at(c)] ||
        node.attributes.integer(Key::axis) != 1 || static_cast<int>(node.args.size()) > facts.machine.concat_sources)
        return;
    if (std::any_of(node.args.begin(), node.args.end(), [&](ValueId a) { return facts.literal[Facts::at(a)]; })) return;
    std::vector<int> readers;
    for (ValueId user : facts.users(c)) {
        if (view[Facts::at(user)] || gathered[Facts::at(user)]) return;
        for (int p = 0; p < count(); ++p) {
            const Slot place = slot(p, user);
            if (place == Slot::absent) continue;
            const bool loads = passes[static_cast<size_t>(p)].kind == PassKind::dense &&
                               (place == Slot::prologue || (place == Slot::tile && use(c, user, p) == Use::prologue));
            if (!loads) return;
            readers.push_back(p);
        }
    }
    gathered[Facts::at(c)] = false;
    std::erase_if(copies, [&](const Copy& copy) { return copy.target == c; });
    for (int p : readers) slots_[place_of(p, c)] = Slot::prologue;
    home[Facts::at(c)] = readers.front();
}

// Of each pass those whose home it is, in order.
void Draft::find_homes() {
    first_at_home_.assign(passes.size() + 1, 0);
    for (const int pass : home)
        if (pass >= 0) ++first_at_home_[static_cast<size_t>(pass) + 1];
    for (size_t p = 0; p < passes.size(); ++p) first_at_home_[p + 1] += first_at_home_[p];
    at_home_.resize(first_at_home_.back());
    std::vector<size_t> next(first_at_home_.begin(), first_at_home_.end() - 1);
    for (ValueId v = 0; v < facts.graph.size(); ++v)
        if (const int pass = home[Facts::at(v)]; pass >= 0) at_home_[next[static_cast<size_t>(pass)]++] = v;
}

void Draft::absorb() {
    find_homes();
    for (int q = 0; q < count(); ++q) {
        const DraftPass& pass = passes[static_cast<size_t>(q)];
        if (!pass.alive || pass.small || pass.kind != PassKind::pointwise) continue;
        const bool copy = std::any_of(copies.begin(), copies.end(), [&](const Copy& c) { return c.pass == q; });
        if (copy) continue;
        if (merge_loop(q))
            find_homes();
        else
            absorb_into_readers(q);
    }
    for (int q = 0; q < count(); ++q)
        if (passes[static_cast<size_t>(q)].kind == PassKind::dense) absorb_into_readers(q);
    for (int q = 0; q < count(); ++q)
        if (passes[static_cast<size_t>(q)].alive) store_narrower(q);
    if (facts.machine.concat_sources > 0)
        for (ValueId v = 0; v < facts.graph.size(); ++v) read_pieces_in_place(v);
}

}  // namespace transfuse
