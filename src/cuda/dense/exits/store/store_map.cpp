#include "cuda/dense/exits/store/store_map.h"

#include <algorithm>

#include "cuda/dense/exits/store/store_along.h"
#include "cuda/dense/schedule/figures.h"

namespace transfuse::cuda {

namespace {

int values_at_most(const Epilogue& epilogue, int most) {
    return std::clamp(figures::most_instructions / epilogue.program().chain_instructions, 1, most);
}

bool is_read_ahead(const Epilogue& epilogue, size_t read) {
    const TileProgram& program = epilogue.program();
    const Operand& o = epilogue.reads()[read];
    if (program.pixel_major || program.pool || epilogue.table_of(read) >= 0 || epilogue.image_table_of(read) >= 0)
        return false;
    if (!o.depends[1] || !(o.depends[2] || o.depends[3] || o.depends[4])) return false;
    return std::any_of(program.steps.begin(), program.steps.end(), [&](ValueId v) {  // and not the prologue alone
        const auto& args = epilogue.graph()[v].args;
        return std::find(args.begin(), args.end(), o.value) != args.end();
    });
}

// Each thread has places of its own for all it will read of a chunk.
std::vector<int> ahead_map(const Epilogue& epilogue, const Schedule& s, const Config& c, const StoreMap& m) {
    std::vector<int> at(epilogue.reads().size(), -1);
    if (s.ahead_bytes == 0 || c.store_groups > 1 || epilogue.leaving().exit == Exit::fold) return at;
    const int vectors = m.turns * s.chunk_outer * ((m.items + m.batch - 1) / m.batch) * m.batch * 128;
    int used = 0;
    for (size_t k = 0; k < at.size(); ++k) {
        const int size = vectors * m.vector * static_cast<int>(bytes(epilogue.reads()[k].dtype));
        if (!is_read_ahead(epilogue, k) || m.vector * bytes(epilogue.reads()[k].dtype) > 16 ||
            used + size > s.ahead_bytes)
            continue;
        at[k] = used, used += size;
    }
    return at;
}

StoreMap pixel_major_map(const Epilogue& epilogue, const Schedule& s, const Config& c, StoreMap m) {
    const bool narrow = bytes(epilogue.stores()[0].dtype) == 2 && !epilogue.reduces_in_chunks();
    m.vector = m.channels >= 64 ? (narrow ? 8 : 4) : m.channels >= 16 ? 2 : 1;  // 16 bytes a store
    m.lanes = std::min(32, m.channels / m.vector);
    m.rows = 128 / m.lanes;
    m.items = (s.chunk_rows * c.chunk_width * s.phases_w + m.rows - 1) / m.rows;
    const int values = values_at_most(epilogue, c.store_groups > 1 ? 8 : epilogue.program().steps.size() > 1 ? 24 : 32);
    const int most = std::max(1, values / m.vector), batches = (m.items + most - 1) / most;
    m.batch = (m.items + batches - 1) / batches;
    m.turns = 1;
    return m;
}

}  // namespace

static StoreMap any_map(const Epilogue& epilogue, const Schedule& s, const Config& c) {
    const TileProgram& program = epilogue.program();
    StoreMap m;
    const int chunk_pixels = s.chunk_rows * c.chunk_width;
    m.channels = s.segments > 1 ? s.segment : (s.joint && s.rows_per_plane == 2 ? 128 : 64);
    if (epilogue.leaving().exit == Exit::fold) m.channels = 4 * s.rows_per_plane;  // a row for each product warp
    if (program.pixel_major) return pixel_major_map(epilogue, s, c, m);
    int columns;
    if (program.pool) {
        int64_t window = 1;
        for (int a = 0; a < 4; ++a) window *= std::max<int64_t>(1, program.needs(s.phases_w).pool[a] / s.period[a]);
        columns = chunk_pixels / static_cast<int>(window);
    } else {
        // A bundle of some residues along w: they alone lie side by side.
        const int together = s.phases_w < s.period[3] && !epilogue.stores().empty() &&
                                     epilogue.stores()[0].strides[4] == 1 &&
                                     s.phases_w <= (epilogue.reduces_in_chunks() ? 2 : 16 / epilogue.real_bytes())
                                 ? s.phases_w
                             : s.phases_w < s.period[3] ? 1
                                                        : program.vector;
        m.vectors = together > 1 && together % s.phases_w == 0 && epilogue.leaving().exit != Exit::fold;
        m.vector = m.vectors ? together : 1;
        m.pixels = m.vectors ? together / s.phases_w : 1;
        columns = m.vectors ? chunk_pixels / m.pixels : chunk_pixels * s.phases_w;
    }
    int operands = 0;  // each is as many registers as there are rows, tensors as many as there are values
    for (size_t k = 0; k < epilogue.reads().size(); ++k)
        operands += epilogue.table_of(k) >= 0 || epilogue.image_table_of(k) >= 0 ? 1 : m.vector;
    const int most = values_at_most(epilogue, c.store_groups > 1 || operands > 2 ? 16 : 32);  // values a thread holds
    // All channels of a pixel in one warp: partial results meet by shuffles, without a barrier. Not where whole rows of
    // single elements are stored: eight of them side by side touch twice the sectors that 32 do.
    const bool scattered =
        m.vector == 1 && columns % 32 == 0 && !epilogue.stores().empty() && epilogue.stores()[0].depends[1];
    if (epilogue.reduces_in_chunks() && columns % 4 == 0 && epilogue.stats() == 0 && !scattered) {
        m.warps_along_w = true;
        // Few channels: a thread has all of its pixel's, and what is computed of them is computed once.
        m.lanes = 32;
        while (columns % (4 * m.lanes)) m.lanes /= 2;
        while (m.lanes > 8 && (m.channels + 32 / m.lanes - 1) / (32 / m.lanes) * m.vector > 16) m.lanes /= 2;
        while ((m.channels + 32 / m.lanes - 1) / (32 / m.lanes) * m.vector > most && m.lanes > 1) m.lanes /= 2;
        m.rows = 32 / m.lanes;
        m.turns = columns / (4 * m.lanes);
        m.items = m.batch = (m.channels + m.rows - 1) / m.rows;
        return m;
    }
    if (program.row_reductions) return map_whole_rows(m, chunk_pixels * s.phases_w, most);
    if (goes_along(epilogue, s, c, m, columns)) return map_along(m, columns, most);
    // Plain stores: as many columns side by side as there are, since what a column costs (its place) is shared by its
    // channels.
    m.lanes = epilogue.reduces_in_chunks() || epilogue.stats() ? 32 : 128;
    while (columns % m.lanes) m.lanes /= 2;
    auto items = [&] { return (m.channels + 128 / m.lanes - 1) / (128 / m.lanes); };
    if (epilogue.reduces_in_chunks())
        while (items() * m.vector > most && m.lanes > 4) m.lanes /= 2;
    m.rows = 128 / m.lanes;
    m.turns = columns / m.lanes;
    m.items = items();
    m.batch = epilogue.reduces_in_chunks() ? m.items : std::min(m.items, std::max(1, most / m.vector));
    m.neighbours = m.lanes >= 32;  // a warp reads one row at a time: any distance is free of bank conflicts
    return m;
}

int ahead_bytes(const Epilogue& epilogue) {
    int64_t sum = 0;
    for (size_t k = 0; k < epilogue.reads().size(); ++k)
        if (is_read_ahead(epilogue, k)) sum += bytes(epilogue.reads()[k].dtype);
    return static_cast<int>(std::min<int64_t>(sum, 8));  // shared memory has room for one or two
}

int chunk_skew(const Epilogue& epilogue, const Schedule& s, const Config& c) {
    constexpr int banks = 32;
    const TileProgram& program = epilogue.program();
    if (c.store_groups == 0 || epilogue.real_bytes() != 4 || program.pixel_major || program.pool ||
        epilogue.leaving().exit == Exit::fold || s.chunk_rows > 1 || c.chunk_width % banks)
        return 0;
    if (s.segment < 16 || s.phases_w == 1 || banks % s.phases_w || any_map(epilogue, s, c).vectors) return 0;
    for (int q = 0; q < s.real_outer; ++q)
        for (int w = 0; w < s.phases_w; ++w)
            if (s.row_of(q, w) < 0 || s.residue_of(s.row_of(q, w)) != w) return 0;
    return banks / s.phases_w;
}

StoreMap store_map(const Epilogue& epilogue, const Schedule& s, const Config& c) {
    StoreMap m = any_map(epilogue, s, c);
    m.ahead = ahead_map(epilogue, s, c, m);
    m.unrolled =
        s.chunk_outer * m.batch * m.vector * epilogue.program().chain_instructions <= 2 * figures::most_instructions;
    return m;
}

}  // namespace transfuse::cuda
