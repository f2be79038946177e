#include "cuda/dense/schedule/scheduler.h"

#include <algorithm>

#include "cuda/dense/schedule/box_shape.h"
#include "cuda/dense/schedule/figures.h"
#include "cuda/dense/schedule/swap_ab_shape.h"

namespace transfuse::cuda {

bool Scheduler::taps() {
    for (int a = 0; a < 4; ++a) {
        const Lattice& axis = problem_.axes[a];
        phases_[a] = axis.phases();
        s_.period[a] = axis.period(), s_.advance[a] = axis.advance();
        bool any = false;
        for (const Phase& phase : phases_[a])
            for (const PhaseTap& tap : phase.taps) {
                const int64_t q = floor_div(tap.shift, s_.advance[a]);
                s_.first[a] = any ? std::min(s_.first[a], q) : q;
                last_[a] = any ? std::max(last_[a], q) : q;
                any = true;
            }
        if (!any) return false;
        s_.tile[a] = static_cast<int64_t>(c_.run[a]) * c_.runs[a];
    }
    return true;
}

bool Scheduler::patch() {
    // Copies of several neighbouring pixels begin and end on their own multiples.
    const int grain = c_.flat ? 1 : problem_.grain();
    s_.first[3] = floor_div(s_.first[3], grain) * grain;
    if (s_.tile[3] % grain != 0) return false;
    for (int a = 0; a < 4; ++a) s_.extent[a] = s_.tile[a] + last_[a] - s_.first[a];
    const int pitch_grain = c_.strip ? grain : std::max({tall() ? 8 : 2, needs_.vector, grain});
    s_.extent[3] = rounded_up(s_.extent[3], pitch_grain);
    if ((c_.shared_padding && !share_padding(pitch_grain)) || (c_.flat && !comes_flat())) return false;
    for (int a = 0; a < 4; ++a)
        if (problem_.boxed() && s_.extent[a] * s_.advance[a] > 256) return false;
    s_.pixels = static_cast<int>(sub_patches() * s_.extent[0] * s_.extent[1] * s_.extent[2] * s_.extent[3]);
    s_.raw_pixels = static_cast<int>(c_.flat ? s_.pixels / s_.extent[3] * problem_.axes[3].in : s_.pixels);
    s_.plane = rounded_up(s_.pixels + s_.tail, 8);
    if (problem_.load == LoadMode::unaligned_rows && (s_.row_box(problem_) > 256 || s_.pixels > most_in_unaligned_rows))
        return false;
    row_span_ = s_.extent[3], plane_span_ = s_.extent[2] * row_span_, batch_span_ = s_.extent[1] * plane_span_;
    if (c_.exit == Exit::swap_ab)
        s_.plane = std::max(s_.plane, rounded_up(furthest_window() + row_span_ - 1 + 2 * swap_ab_pixels, 8));
    return true;
}

// A row begins `first` columns before the image. What it reads beyond its pitch is the beginning of the next row:
// zeros, up to column 0 of the image, and there is no pixel of its own any more. After the last row the kernel keeps
// zeros.
bool Scheduler::share_padding(int pitch_grain) {
    const int64_t used = u_extent(problem_.axes[3]) + last_[3];  // end of what stored outputs read, from column 0
    const int pitch = rounded_up(std::max({used - std::max<int64_t>(s_.first[3], 0),
                                           std::min(problem_.axes[3].in, used) - s_.first[3], s_.tile[3]}),
                                 pitch_grain);
    if (problem_.any_size || s_.advance[3] > 1 || u_extent(problem_.axes[3]) > s_.tile[3] || pitch >= s_.extent[3])
        return false;
    s_.extent[3] = pitch;
    s_.tail = static_cast<int>(std::max<int64_t>(0, used - s_.first[3] - pitch));
    return true;
}

bool Scheduler::comes_flat() const {
    const int64_t in_w = problem_.axes[3].in;
    if (problem_.load != LoadMode::boxes || !problem_.rows_adjoin || problem_.any_size) return false;
    return u_extent(problem_.axes[3]) <= s_.tile[3] && s_.first[3] <= 0 && in_w - s_.first[3] <= s_.extent[3] &&
           s_.extent[2] * in_w <= 256;
}

// Rows of the run lie one after another; the columns between them are computed and not stored.
bool Scheduler::run() {
    if (c_.exit == Exit::swap_ab) return turn();
    if (c_.strip && (c_.run[3] != strip_width || problem_.family != Family::wgmma || needs_.exit == Exit::statistics))
        return false;
    s_.run_pitch = static_cast<int>(c_.strip ? strip_width : row_span_);
    s_.run_pixels = rounded_up(run_column(c_.run[0] - 1, c_.run[1] - 1, c_.run[2] - 1) + c_.run[3], 8);
    if (s_.run_pixels > (c_.strip ? problem_.longest_strip(needs_.has_store_role()) : problem_.longest_run()))
        return false;
    s_.run_offset = static_cast<int>(c_.runs[0] > 1   ? c_.run[0] * batch_span_
                                     : c_.runs[1] > 1 ? c_.run[1] * plane_span_
                                     : c_.runs[2] > 1 ? c_.run[2] * row_span_
                                     : c_.runs[3] > 1 ? c_.run[3]
                                                      : 0);
    s_.accumulators = rounded_up(s_.run_pixels, 8 * problem_.warps_n()) / 2;
    return true;
}

// Windows of 64 pixels are parts of a row, or follow one another over all rows of an image and over the columns between
// them, from any column of a tile's first row on. A tile has two.
bool Scheduler::turn() {
    const int channels = rounded_up(problem_.cout, 8);
    if (problem_.family != Family::wgmma || problem_.terms() > 1 || channels > 256 || c_.strip || c_.flat ||
        c_.split != Split::pixels || c_.run[0] != 1 || c_.run[1] != 1)
        return false;
    s_.unbroken = c_.runs == std::array{1, 1, 1, 1}, s_.operand_rows = channels;
    if (s_.unbroken ? u_extent(problem_.axes[3]) > s_.tile[3] || s_.advance[2] > 1 ||
                          s_.tile[2] * row_span_ < row_span_ - 1 + 2 * swap_ab_pixels
                    : c_.run[2] != 1 || c_.run[3] != swap_ab_pixels || c_.runs != std::array{1, 1, 1, 2})
        return false;
    s_.run_pitch = static_cast<int>(row_span_);
    s_.run_pixels = s_.run_offset = swap_ab_pixels;
    s_.accumulators = channels / 2;
    return true;
}

bool Scheduler::rows() {
    s_.phases_w = c_.w_phases ? c_.w_phases : static_cast<int>(s_.period[3]);
    s_.segment = problem_.cout <= 8 ? 8 : problem_.cout <= 16 ? 16 : problem_.cout <= 32 ? 32 : 64;
    int64_t phase_count = s_.phases_w;
    for (size_t a = 1; a < 3; ++a) phase_count *= s_.period[a];
    // Very few channels of many phases: as many side by side as there are.
    while (needs_.has_store_role() && s_.segment / 2 >= problem_.cout && 64 / s_.segment < phase_count) s_.segment /= 2;
    if (c_.exit == Exit::swap_ab) s_.segment = 64;
    s_.segments = 64 / s_.segment;
    s_.channel_blocks = c_.exit == Exit::swap_ab ? 1 : static_cast<int>((problem_.cout + 63) / 64);
    std::vector<bool> has_taps(phases_[3].size());
    for (size_t r = 0; r < phases_[3].size(); ++r) has_taps[r] = !phases_[3][r].taps.empty();
    // Many residues along w leave few pixels to each: then bundles of some of them, which all have taps.
    if (c_.w_phases && (s_.period[3] % s_.phases_w || s_.period[3] / s_.phases_w < 2 || s_.segments > 1 ||
                        needs_.exit == Exit::statistics || needs_.pool[3] > 1 ||
                        std::find(has_taps.begin(), has_taps.end(), false) != has_taps.end()))
        return false;
    planes(has_taps);
    outer_phases();
    return true;
}

void Scheduler::planes(const std::vector<bool>& has_taps) {
    s_.plane_of_w.assign(static_cast<size_t>(s_.phases_w), -1);
    s_.planes_per_bundle = 0;
    for (int w = 0; w < s_.phases_w; w += s_.segments) {
        const int end = std::min(s_.phases_w, w + s_.segments);
        if (std::find(has_taps.begin() + w, has_taps.begin() + end, true) == has_taps.begin() + end) continue;
        for (int r = w; r < end; ++r) s_.plane_of_w[r] = s_.planes_per_bundle;
        ++s_.planes_per_bundle;
    }
}

void Scheduler::outer_phases() {
    for (size_t d = 0; d < phases_[1].size(); ++d)
        for (size_t h = 0; h < phases_[2].size(); ++h)
            for (int w = 0; w < s_.period[3]; w += s_.phases_w)
                (phases_[1][d].taps.empty() || phases_[2][h].taps.empty() ? empty_ : real_)
                    .push_back({static_cast<int>(d), static_cast<int>(h), w});
    const int outer = static_cast<int>(real_.size());
    s_.bundle_phases = std::min(s_.phases_w <= s_.segments ? std::max(1, s_.segments / s_.phases_w) : 1, outer);
    s_.bundle_count = (outer + s_.bundle_phases - 1) / s_.bundle_phases;
}

bool Scheduler::accumulators() {
    s_.variants = (s_.bundle_count + c_.bundles * groups() - 1) / (c_.bundles * groups());
    s_.blocks_per_tile = c_.split == Split::channels ? 2 : 1;
    s_.m_groups = (s_.channel_blocks + s_.blocks_per_tile - 1) / s_.blocks_per_tile;
    s_.fixed = static_cast<int>(problem_.groups) * s_.m_groups;
    s_.blocks = c_.bundles * s_.planes_per_bundle;
    const int registers = s_.blocks * s_.accumulators * problem_.terms();  // strict: sums beside the accumulators
    if (registers * problem_.real_bytes() / 4 >
        problem_.accumulator_registers(c_.store_groups) - (needs_.exit == Exit::statistics ? needs_.beside : 0))
        return false;
    if (needs_.exit == Exit::tma && needs_.all_channels &&
        (s_.blocks + 1) * s_.accumulators * problem_.terms() > figures::most_reduced_boxes)
        return false;                                                     // exponentials beside them
    if (needs_.folded && registers > figures::most_folded) return false;  // the fold needs some beside them
    if (c_.store_groups > 1 && (s_.accumulators > 64 || c_.buffers % (2 * c_.store_groups)))
        return false;  // a buffer may not come round before its group does
    if (c_.exit != needs_.exit || (c_.exit == Exit::swap_ab && registers > most_swap_ab)) return false;
    if (c_.exit == Exit::direct && (!c_.strip || s_.segments > 1)) return false;
    if (c_.split == Split::channels && s_.channel_blocks < 2) return false;
    if (c_.split == Split::phases && s_.bundle_count < 2) return false;
    return !needs_.all_channels || s_.fixed == 1;  // a tile holds one group's channels
}

bool Scheduler::pools() const {
    for (int a = 0; a < 4; ++a)
        if (needs_.pool[a] > 1 &&
            (needs_.pool[a] % s_.period[a] != 0 || c_.run[a] % (needs_.pool[a] / s_.period[a]) != 0))
            return false;
    return !outer_together_ || (s_.variants == 1 && !(!needs_.has_store_role() && c_.split == Split::phases));
}

bool Scheduler::whole_rows() const {
    return c_.run[0] * c_.run[1] * c_.run[2] == 1 && c_.runs[3] == 1 && u_extent(problem_.axes[3]) <= c_.run[3] &&
           s_.phases_w == s_.period[3] && !c_.strip && needs_.has_store_role();
}

// Pairs of channel vectors, or two taps of one vector.
bool Scheduler::depth() {
    s_.interleaved = needs_.exit == Exit::statistics && s_.segments > 1;
    s_.pairs = problem_.cin <= problem_.lanes();
    s_.vectors = s_.pairs ? 1 : 2 * c_.k_steps;
    if (s_.pairs && c_.k_steps != 1) return false;
    s_.k_stages =
        static_cast<int>((problem_.cin + s_.vectors * problem_.lanes() - 1) / (s_.vectors * problem_.lanes()));
    s_.tile_bytes = 32 * s_.operand_rows * problem_.terms();
    return true;
}

bool Scheduler::chunks() {
    s_.joint = (needs_.all_channels && c_.split == Split::channels) || (outer_together_ && c_.split == Split::phases);
    if (outer_together_) {
        s_.sets = 1, s_.planes = s_.blocks;
        s_.rows_per_plane = 1, s_.rows_per_group = s_.blocks;
        if (c_.split == Split::channels && (c_.bundles > 1 || s_.joint)) return false;
    } else {
        s_.sets = c_.bundles, s_.planes = s_.planes_per_bundle;
        s_.rows_per_plane = s_.joint ? 2 : 1, s_.rows_per_group = 1;
    }
    if (needs_.folded) s_.block_rows = 4 * needs_.folded;
    s_.chunk_height = s_.planes * (s_.joint ? 2 : 1) * s_.block_rows;
    phase_table();
    s_.pixel_major = needs_.pixel_major;
    chunk_rows();
    s_.chunk_count = (s_.row_length + c_.chunk_width - 1) / c_.chunk_width;
    if (needs_.whole_rows && (s_.chunk_count > 1 || c_.chunk_width % 32 || !whole_rows())) return false;
    if (needs_.pool[3] > 1 && c_.chunk_width % (needs_.pool[3] / s_.period[3]) != 0) return false;
    const int pixels = s_.chunk_rows * c_.chunk_width;
    s_.pitch = needs_.pixel_major ? s_.chunk_height + 4 : pixels + (pixels % 16 == 0 ? 8 : 0);
    s_.chunk_bytes = (needs_.pixel_major ? pixels : s_.chunk_height) * s_.pitch * problem_.real_bytes();
    if (needs_.folded &&
        (s_.segments > 1 || s_.chunk_count > 1 || !empty_.empty() || needs_.pooled || needs_.pixel_major))
        return false;
    if (!needs_.has_store_role())
        s_.chunk_bytes = needs_.exit == Exit::tma ? boxes_bytes(box_shape(problem_, needs_, c_, s_)) : 0;
    if (needs_.exit == Exit::swap_ab) s_.chunk_bytes = swap_ab_bytes(needs_, c_, s_);
    return !needs_.has_store_role() || s_.joint || c_.buffers >= 2;
}

// Which outer phases a chunk has: those of its accumulators, and as riders some of those without taps.
void Scheduler::phase_table() {
    const int per = c_.split == Split::phases && !s_.joint ? 2 : 1;  // warpgroups with chunks of their own phases
    const int slots = s_.variants * per * s_.sets, outer = static_cast<int>(real_.size()),
              without = static_cast<int>(empty_.size());
    s_.real_outer = s_.bundle_phases * (outer_together_ ? c_.bundles * groups() : 1);
    const int riders = (without + slots - 1) / slots;
    s_.chunk_outer = s_.real_outer + riders;
    s_.phase_table.assign(
        static_cast<size_t>(s_.variants) * 2,
        std::vector<std::vector<ChunkPhase>>(static_cast<size_t>(s_.sets),
                                             std::vector<ChunkPhase>(static_cast<size_t>(s_.chunk_outer))));
    for (int v = 0; v < s_.variants; ++v)
        for (int g = 0; g < 2; ++g)
            for (int set = 0; set < s_.sets; ++set) {
                auto& list = s_.phase_table[static_cast<size_t>(v) * 2 + g][set];
                const int mine = per == 2 ? g : 0;
                const int begin = outer_together_ ? 0 : ((v * groups() + mine) * c_.bundles + set) * s_.bundle_phases;
                for (int i = 0; i < s_.real_outer; ++i)
                    if (begin + i < outer) list[i] = real_[static_cast<size_t>(begin + i)];
                const int slot = (v * per + mine) * s_.sets + set;
                for (int i = 0; i < riders; ++i)
                    if (slot * riders + i < without)
                        list[s_.real_outer + i] = empty_[static_cast<size_t>(slot * riders + i)];
            }
}

void Scheduler::chunk_rows() {
    if (tall()) {
        for (int n = 0; n < c_.run[0]; ++n)
            for (int d = 0; d < c_.run[1]; ++d)
                for (int h = 0; h < c_.run[2]; ++h) s_.chunk_row_start.push_back(run_column(n, d, h));
        s_.row_length = s_.run_pitch;  // the last row may end with the run
    } else {
        s_.chunk_row_start.push_back(0);
        s_.row_length = s_.run_pixels;
    }
    s_.chunk_rows = static_cast<int>(s_.chunk_row_start.size());
}

int64_t Scheduler::furthest_window() const {
    return s_.pixels - s_.pixels / sub_patches() + (last_[1] - s_.first[1]) * plane_span_ +
           (last_[2] - s_.first[2]) * row_span_ + last_[3] - s_.first[3];
}

// Portable warps load blocks of 8 pixels two or four at a time: what the furthest window meets beyond the last plane,
// and makes nothing of, is not the next stage, which may be being written.
int Scheduler::beyond() const {
    if (problem_.family == Family::wgmma) return 0;
    const int at_once = problem_.arithmetic == Arithmetic::f64 ? 16 : 32;
    const int64_t furthest = furthest_window() + s_.run_offset;
    return static_cast<int>(std::max<int64_t>(0, furthest + rounded_up(s_.run_pixels, at_once) - s_.plane));
}

bool Scheduler::memory(const Target& target) {
    if (c_.skips && c_.resident) return false;
    if (problem_.transposed() && s_.vectors % c_.piece != 0) return false;
    const int turn = 128 * problem_.word_pixels(), turns = (s_.pixels + turn - 1) / turn;
    s_.pieces = problem_.transposed() ? s_.vectors / c_.piece : (turns + c_.piece - 1) / c_.piece;
    s_.stage_bytes = (s_.vectors * problem_.terms() * s_.plane + beyond()) * 16;
    s_.raw_bytes = s_.raw_piece_bytes(problem_, c_);
    int at = 0;
    s_.weights_at = at;
    at += c_.resident ? s_.k_steps(c_) * s_.tile_count() * s_.tile_bytes : c_.slabs * s_.slab_bytes;
    s_.stages_at = at, at += c_.stages * s_.stage_bytes;
    s_.raw_at = at, at += c_.raw * s_.raw_bytes;
    if (needs_.exit == Exit::tma) at = rounded_up(at, 1024);
    s_.chunks_at = at, at += c_.buffers * s_.chunk_bytes;
    s_.ahead_bytes = needs_.ahead * s_.outputs_of(s_.chunk_rows * c_.chunk_width);
    s_.ahead_at = at, at += 2 * s_.ahead_bytes;
    s_.tables_at = at, at += needs_.table_bytes + c_.store_groups * needs_.group_bytes;
    s_.places_at = (at + 15) / 16 * 16, at = s_.places_at + s_.places_bytes(problem_, c_);
    s_.shared_bytes = at;
    if (at + 1024 > target.shared_bytes) return false;
    // A block that keeps to its weights has one part of the channels and one variant.
    if (c_.resident && c_.split == Split::phases && s_.fixed > 1 && s_.variants > 1 &&
        target.multiprocessors % (s_.fixed * s_.variants))
        return false;
    return s_.plane * 16 <= 262128;
}

}  // namespace transfuse::cuda
