#include "cuda/dense/choose/memory_plans.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "algebra/lattice/integer.h"
#include "cuda/dense/choose/cost.h"
#include "cuda/dense/schedule/figures.h"

namespace transfuse::cuda {

using namespace figures;

namespace {

class MemoryPlanner {
public:
    MemoryPlanner(const Problem& problem, const Needs& needs, const Schedule& s, const Config& base,
                  const MemoryAsked& asked)
        : problem_(problem),
          needs_(needs),
          s_(s),
          asked_(asked),
          stages_(problem.load == LoadMode::direct || problem.load == LoadMode::operand ? 4 : base.stages),
          m_{problem, needs, s, base},
          piece_(usual_piece()),
          rings_(rings()) {
        m_.c.store_groups = needs.has_store_role();
    }

    std::vector<MemoryPlan> best() {
        for (const Weights& weights : this->weights()) {
            lay(weights);
            if (m_.weight_bytes() > asked_.bytes - beside_weights) continue;
            for (const Chunks& chunks : widths)
                if (serves(chunks)) try_rings(chunks);
        }
        std::vector<MemoryPlan> list;
        for (auto& [kind, plan] : best_) list.push_back(finished(std::move(plan)));
        return list;
    }

private:
    struct Weights {
        bool resident;
        int tiles, slabs;
    };
    struct Ring {
        int raw, stages;  // pieces of the patch as it comes, and stages
    };
    struct Chunks {
        int width, buffers;
    };
    static constexpr Chunks widths[] = {{64, 6}, {64, 4}, {64, 3}, {64, 2}, {48, 4}, {48, 3}, {48, 2}, {32, 8}, {32, 6},
                                        {32, 4}, {32, 3}, {32, 2}, {16, 8}, {16, 4}, {16, 2}, {8, 4},  {8, 2}};

    // The whole patch in one piece where it is small: then a thread's place in it never changes.
    int usual_piece() const {
        const int turns = m_.load_turns(), whole = std::max(1, 6 * 8 / (s_.vectors * 4));
        return problem_.transposed() ? s_.vectors : turns <= whole ? turns : std::max(1, std::min(2 * whole / 3, 4));
    }

    // Boxes that come directly into the operand have stages alone, of which large patches leave room for few; a ring
    // may hold a whole tile.
    std::vector<Ring> rings() const {
        if (m_.operand_without_stores()) return {{3, 4}, {3, 3}, {3, 2}};
        std::vector<Ring> list{{4, stages_}, {3, stages_}, {2, stages_}};
        if (problem_.transposed() && problem_.lanes() == 4 && s_.k_stages > stages_ && s_.k_stages <= most_stages)
            list.push_back({2, s_.k_stages});
        return list;
    }

    std::vector<Weights> weights() {
        std::vector<Weights> list;
        const int step_tiles = s_.tile_count() / s_.variants;
        if (s_.fixed <= most_resident_parts) list.push_back({true, 0, 1});
        for (int parts : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128}) {
            if (parts > 32 && !asked_.tight) break;
            const int tiles = (step_tiles + parts - 1) / parts;
            if (tiles * s_.tile_bytes > largest_slab) continue;
            if (parts > 1 && tiles * s_.tile_bytes < (asked_.tight ? smallest_tight_slab : smallest_slab)) break;
            for (int slabs : {2, 3, 4, 6}) list.push_back({false, parts == 1 ? 0 : tiles, slabs});
        }
        // Slabs of whole rows of taps, which can be skipped where they lie outside the image: few pixels, many taps.
        const int row_tiles = tiles_of_a_row(step_tiles);
        m_.c.slab_tiles = row_tiles;
        if (row_tiles < step_tiles && m_.share_met(asked_.waves) < worth_skipping)
            for (int rows = 1; rows * row_tiles * s_.tile_bytes <= largest_skipped; ++rows)
                for (int slabs : {2, 3, 4, 6}) list.push_back({false, rows * row_tiles, slabs});
        return list;
    }
    int tiles_of_a_row(int step_tiles) const {  // of taps
        int tiles = 0;
        while (tiles < step_tiles && s_.reach[static_cast<size_t>(tiles)][0].first == s_.reach[0][0].first &&
               s_.reach[static_cast<size_t>(tiles)][1].first == s_.reach[0][1].first)
            ++tiles;
        return tiles;
    }

    void lay(const Weights& weights) {
        m_.c.resident = weights.resident, m_.c.slab_tiles = weights.tiles, m_.c.slabs = weights.slabs;
        m_.met = weights.resident ? 1 : m_.share_met(asked_.waves);
        m_.c.skips = m_.met < worth_skipping;
        if (!m_.c.skips) m_.met = 1;
    }

    // A chunk of 48 pixels that is all of a run, where outputs are stored one by one (L2_100 of KernelBench: 2.94
    // -> 2.62 ms).
    bool just_a_run() const {
        return needs_.one_by_one && needs_.element_bytes == 4 && s_.phases_w == s_.period[3] && s_.phases_w % 2 == 0 &&
               s_.row_length > 32 && s_.row_length <= 48;
    }
    bool whole_runs() const { return needs_.folded || needs_.whole_rows; }  // in a chunk
    bool serves(const Chunks& chunks) const {
        const int width = chunks.width;
        if (needs_.pool[3] > 1 && width % (needs_.pool[3] / s_.period[3]) != 0) return false;
        if (!needs_.has_store_role()) return width == 64 && chunks.buffers == 2;
        if (whole_runs()) return width == 64;
        return (width != 48 || just_a_run()) && (width <= 8 || s_.row_length > width / 2);
    }

    void try_rings(const Chunks& chunks) {
        m_.c.chunk_width = whole_runs() ? static_cast<int>(round_up(s_.row_length, 32)) : chunks.width;
        m_.c.buffers = chunks.buffers;  // folded: whole runs are small
        struct {
            int piece = 0, stages = 0;
            double cycles = 0;
        } counted;  // of boxes the number of raw pieces costs memory alone
        for (const Ring& ring : rings_) {
            if (ring.stages > stages_ && !m_.c.resident) continue;
            m_.c.raw = ring.raw, m_.c.stages = ring.stages;
            if (!lay_pieces()) continue;
            m_.c.alternates = m_.alternates();
            if (!problem_.boxed() || counted.piece != m_.c.piece || counted.stages != m_.c.stages)
                counted = {m_.c.piece, m_.c.stages, m_.cycles()};
            keep(counted.cycles * of_chunks(chunks) * of_loads(ring), chunks);
        }
    }

    // Whether all fits; a large patch comes in smaller pieces, vector by vector.
    bool lay_pieces() {
        m_.c.piece = piece_;
        if (asked_.tight)
            while (m_.bytes() > asked_.bytes && m_.c.piece > 1) m_.c.piece = (m_.c.piece + 1) / 2;
        else if (problem_.transposed() && m_.bytes() > asked_.bytes)
            m_.c.piece = 1;
        return m_.bytes() <= asked_.bytes;
    }

    // Of plans that are alike in cycles wide chunks are best, and for threads that fetch themselves more in flight and
    // weights that stay.
    double of_chunks(const Chunks& chunks) const {
        return narrow_chunk(chunks.width * (m_.c.w_phases >= 4 ? m_.c.w_phases : 1));  // of them 16 bytes lie together
    }
    double of_loads(const Ring& ring) const {
        if (problem_.boxed()) return ring.raw == 3 ? 1.0 : two_boxes;
        return copies_in_flight(ring.raw) * (m_.c.resident ? 1.0 : streamed_beside_copies);
    }

    using Kind = std::array<int, 3>;
    void keep(double cycles, const Chunks& chunks) {
        const Kind kind = asked_.several
                              ? Kind{m_.c.resident ? -1 : m_.c.slab_tiles, chunks.width >= 32, chunks.buffers > 2}
                              : Kind{};
        const auto at = best_.find(kind);
        if (at == best_.end())
            best_.emplace(kind, MemoryPlan{m_.c, cycles});
        else if (cycles < at->second.cycles)
            at->second = {m_.c, cycles};
    }

    MemoryPlan finished(MemoryPlan plan) const {
        plan.config.share_registers();
        if (needs_.exit == Exit::reduced)  // the work moves as well
            plan.config.store_registers -= 16, plan.config.product_registers += 8;
        return plan;
    }

    const Problem& problem_;
    const Needs& needs_;
    const Schedule& s_;
    const MemoryAsked& asked_;
    const int stages_;
    Cost m_;  // of what is tried
    const int piece_;
    const std::vector<Ring> rings_;
    std::map<Kind, MemoryPlan> best_;
};

}  // namespace

std::vector<MemoryPlan> memory_plans(const Problem& problem, const Needs& needs, const Schedule& s, const Config& base,
                                     const MemoryAsked& asked) {
    return MemoryPlanner(problem, needs, s, base, asked).best();
}

}  // namespace transfuse::cuda
