#include "cuda/dense/exits/accumulators/fragment_places.h"

#include <algorithm>

namespace transfuse::cuda {

FragmentPlaces::FragmentPlaces(const Epilogue& epilogue, const Schedule& s, const Config& config, bool asked,
                               Lines& lines)
    : s_(s),
      c_(config),
      t(lines),
      needs_(epilogue.program().needs(s.phases_w)),
      pooled_(epilogue.program().pool.has_value()),
      asked_(asked && !pooled_ && all_have_results()),
      whole_apart_(asked_ && !epilogue.problem().sums_are_long()) {
    for (size_t a = 0; a < 4; ++a) reach_[a] = static_cast<int>(std::max<int64_t>(1, needs_.pool[a] / s.period[a]));
    find_columns(config);
}

// Columns of a lane after the pool: the first pixel of each window, and which 8-pixel groups hold its members.
void FragmentPlaces::find_columns(const Config& config) {
    if (!pooled_) {
        for (int j = 0; j < s_.run_pixels / 8; ++j)
            for (int f = 0; f < 2; ++f) columns_.push_back({j, f});
        return;
    }
    const int row = static_cast<int>(s_.extent[3]) / 8, plane = static_cast<int>(s_.extent[2]) * row,
              image = static_cast<int>(s_.extent[1]) * plane;
    for (int n = 0; n < config.run[0]; ++n)
        for (int d = 0; d < config.run[1]; d += reach_[1])
            for (int h = 0; h < config.run[2]; h += reach_[2])
                for (int j = 0; j < (config.run[3] + 7) / 8; ++j)
                    for (int f = 0; f < (reach_[3] == 1 ? 2 : 1); ++f)
                        columns_.push_back({n * image + d * plane + h * row + j, f});
    for (int d = 0; d < reach_[1]; ++d)
        for (int h = 0; h < reach_[2]; ++h) members_.push_back(d * plane + h * row);
}

std::vector<int> FragmentPlaces::groups() const {
    std::vector<int> list;
    for (const Column& c : columns_) list.push_back(c.group);
    return list;
}

std::string FragmentPlaces::counts() const {
    std::string found;
    auto also = [&](const std::string& condition) { found += (found.empty() ? "" : " && ") + condition; };
    if (pooled_ && s_.segments >= 4) also("segment == 0");
    if (pooled_ && reach_[3] > 2) also("lane % " + num(reach_[3] / 2) + " == 0");
    return found;
}

void FragmentPlaces::tables() {
    if (pooled_) {
        std::vector<int> pixels;
        for (const Column& c : columns_) pixels.push_back(c.group * 8 + c.pixel);
        t.line("__constant__ short result_pixels[] = {" + listed(pixels) +
               "};   // each result's first pixel, but for the lane's own");
    } else if (!asked_ || !alike()) {
        t.line("__constant__ int segment_phases[] = {" + listed(codes()) +
               "};   // [variant][warpgroup][accumulator][segment]: residue along d * 65536 + h * 256 + w");
    }
    if (whole_apart_) at_the_end();
    if (asked_) return;
    if (!pooled_) whole_tiles();
    t.line(std::string("typedef ") + (columns_.size() > 32 ? "unsigned long long" : "unsigned") + " Mask;");
}

std::vector<int> FragmentPlaces::codes() const {
    std::vector<int> codes;
    for (size_t part = 0; part < s_.phase_table.size(); ++part)
        for (int block = 0; block < s_.blocks; ++block)
            for (int segment = 0; segment < s_.segments; ++segment)
                codes.push_back(s_.phase_of(part, block, segment).code());
    return codes;
}

bool FragmentPlaces::phased() const {
    const std::vector<int> all = codes();
    return std::any_of(all.begin(), all.end(), [](int code) { return code != 0; });
}

bool FragmentPlaces::alike() const {
    const std::vector<int> all = codes();
    const auto own = static_cast<size_t>(s_.blocks * s_.segments);
    for (size_t i = own; i < all.size(); ++i)
        if (all[i] != all[i % own]) return false;
    return true;
}

bool FragmentPlaces::all_have_results() const {
    const std::vector<int> all = codes();
    return std::all_of(all.begin(), all.end(), [](int code) { return code >= 0; });
}

void FragmentPlaces::phases() {
    if (!phased() || !alike()) return;
    std::vector<int> own = codes();
    own.resize(static_cast<size_t>(s_.blocks * s_.segments));
    t.line("static constexpr int phases[] = {" + listed(own) + "};   // residue along d * 65536 + h * 256 + w");
}

std::string FragmentPlaces::inside() const {
    if (!phased()) return "is_inside(e, at)";
    const std::string of = "b * SEGMENTS + segment + (SEGMENTS > 1 ? i : 0)]";
    return "is_inside(e, at, " +
           (alike() ? "phases[" : std::string("segment_phases[(at.variant * 2 + warpgroup) * BLOCKS * SEGMENTS + ")) +
           of + ")";
}

void FragmentPlaces::functions() {
    asked_ ? is_inside() : find_inside();
    if (!pooled_ && !asked_) ends_elsewhere();
    if (whole_apart_) is_whole();
}

// Columns of the patch beyond the run and outputs beyond the border; an axis whose tiles have one place is never cut.
void FragmentPlaces::is_inside() {
    const int64_t last = s_.run_pixels - 1, row = last / s_.extent[3], plane = row / s_.extent[2];
    const std::array<int64_t, 4> most{plane / s_.extent[1], std::min(plane, s_.extent[1] - 1),
                                      std::min(row, s_.extent[2] - 1), std::min(last, s_.extent[3] - 1)};
    const std::array<std::string, 4> place{"r / (EXTENT_H * EXTENT_D)", plane == 0 ? "0" : "r / EXTENT_H % EXTENT_D",
                                           row < s_.extent[2] ? "r" : "r % EXTENT_H", "p % EXTENT_W"},
        residue{"", " + (code >> 16)", " + (code >> 8 & 255)", " + (code & 255)"};
    std::string found;
    for (size_t a = 0; a < 4; ++a) {
        const std::string x = axis_names[a], k = num(static_cast<int64_t>(a));
        if (most[a] >= c_.run[a]) found += " && " + place[a] + " < RUN_" + x;
        if (s_.period[a] == 1 && s_.tile[a] == 1) continue;
        const std::string at =
            "(at.u[" + k + "] + warpgroup * SECOND_" + x + (most[a] > 0 ? " + " + place[a] : "") + ")";
        found += " && " + (s_.period[a] > 1 ? "PERIOD_" + x + " * " + at + residue[a] : at) + " < s.out[" + k + "]";
    }
    t.line("// Whether the lane's result e lies in the output, o = PERIOD * (u + place) + residue.");
    t.line("__device__ __forceinline__ bool is_inside(int e, const Place& at" +
           std::string(phased() ? ", int code" : "") + ") {");
    t.line("const int p = e / 2 * 8 + e % 2 + column, r = p / EXTENT_W;");
    t.line("return " + (found.empty() ? "true" : found.substr(4)) + ";");
    t.line("}");
}

void FragmentPlaces::is_whole() {
    std::string found;
    for (size_t a = 0; a < 4; ++a) {
        if (s_.period[a] == 1 && s_.tile[a] == 1) continue;
        const std::string x = axis_names[a], k = num(static_cast<int64_t>(a));
        found += " && PERIOD_" + x + " * (at.u[" + k + "] + warpgroup * SECOND_" + x + " + RUN_" + x +
                 (a == 3 ? " - 1" : "") + ") <= s.out[" + k + "]";
    }
    t.line("// A tile that no border cuts, but for the last column: rows of an odd length end so in every tile.");
    t.line("__device__ __forceinline__ bool is_whole(const Place& at) { return " +
           (found.empty() ? "true" : found.substr(4)) + "; }");
}

void FragmentPlaces::whole_tiles() {
    t.line("// A tile that no border cuts, but for the last column: rows of an odd length end so in every tile.");
    t.line(
        "static __device__ __forceinline__ constexpr bool is_whole(unsigned ends) { return ends >> 8 == (RUN_N "
        "<< 16 | RUN_D << 8 | RUN_H) && (ends & 255) + 1 >= RUN_W; }");
    at_the_end();
}

void FragmentPlaces::at_the_end() {
    t.line("// Whether result k of some lane lies in the last column or in the padding between rows.");
    t.line("static __device__ __forceinline__ constexpr bool at_the_end(int k) {");
    t.line("for (int p = k / 2 * 8 + k % 2, r = p / EXTENT_W; p < k / 2 * 8 + 8; p += 2, r = p / EXTENT_W)");
    t.line(
        "if (p % EXTENT_W + 1 >= RUN_W || r % EXTENT_H >= RUN_H || r / EXTENT_H % EXTENT_D >= RUN_D || r / "
        "(EXTENT_H * EXTENT_D) >= RUN_N) return true;");
    t.line("return false;");
    t.line("}");
}

void FragmentPlaces::fields() {
    if (asked_) return;
    t.line(
        "struct Inside { unsigned ends, other_ends; Mask mask, other; };   // of this tile and of the last one "
        "with other ends");
    t.line("Inside inside[MASKS][MASK_ROWS] = {};   // bit k: result k lies in the output");
    if (!pooled_ && s_.variants == 1)
        t.line("int left[4] = {};                 // outputs from the run's first one to the end, along each axis");
    else if (!pooled_)
        t.line(
            "int left[5] = {0, 0, 0, 0, -1};   // outputs from the run's first one to the end, along each axis; "
            "which phases");
}

// Tiles inside alternate with tiles at a border: two answers are kept.
void FragmentPlaces::find_inside() {
    t.line("__device__ __forceinline__ Mask find_inside(Inside& known, const Place& at, int code) {");
    for (size_t a = 0; a < 4; ++a) {
        static const char* residues[4] = {"0", "(code >> 16)", "(code >> 8 & 255)", "(code & 255)"};
        const std::string x = axis_names[a], k = num(static_cast<int64_t>(a)), out = "s.out[" + k + "]";
        const std::string end = pooled_ ? out + " / " + num(needs_.pool[a]) + " * " + num(reach_[a])
                                        : "(" + out + " - " + residues[a] + " + PERIOD_" + x + " - 1) / PERIOD_" + x;
        t.line("const unsigned end_" + x + " = max(0, min(RUN_" + x + ", " + end + " - at.u[" + k +
               "] - warpgroup * SECOND_" + x + "));");
    }
    t.line("const unsigned now = code < 0" + std::string(counts().empty() ? "" : " || !counts") +
           " ? 0 : end_N << 24 | end_D << 16 | end_H << 8 | end_W;");
    t.line("if (now == known.ends) return known.mask;");
    t.line("const bool back = now == known.other_ends;");
    t.line("Mask mask = back ? known.other : 0;");
    t.line("known.other = known.mask;");
    t.line("known.other_ends = known.ends;");
    t.line("if (!back)");
    t.line("#pragma unroll 1");
    t.line(std::string("for (int k = 0; k < RESULTS; ") + (pooled_ ? "k++" : "k += 2") + ") {");
    t.line(std::string("const unsigned p = ") + (pooled_ ? "result_pixels[k]" : "k * 4") +
           " + column, r = p / EXTENT_W, w = p % EXTENT_W;");
    t.line(
        "const unsigned row = (r % EXTENT_H < end_H) & (r / EXTENT_H % EXTENT_D < end_D) & (r / (EXTENT_H * "
        "EXTENT_D) < end_N);");
    // A lane's two neighbours lie on one row: pitches are even.
    t.line(std::string("mask |= (Mask)(row & (w < end_W)") + (pooled_ ? "" : " | (row & (w + 1 < end_W)) << 1") +
           ") << k;");
    t.line("}");
    t.line("known.ends = now;");
    t.line("return known.mask = mask;");
    t.line("}");
}

void FragmentPlaces::ends_elsewhere() {
    t.line("// Whether the output ends elsewhere in this tile than in the last one.");
    t.line("__device__ __forceinline__ bool ends_elsewhere(const Place& at) {");
    std::string same = s_.variants == 1 ? "" : " && at.variant == left[4]";
    for (size_t a = 0; a < 4; ++a) {
        const std::string x = axis_names[a], k = num(static_cast<int64_t>(a));
        t.line("const int left_" + x + " = min(PERIOD_" + x + " * RUN_" + x + ", s.out[" + k + "] - PERIOD_" + x +
               " * (at.u[" + k + "] + warpgroup * SECOND_" + x + "));");
        same += " && left_" + x + " == left[" + k + "]";
    }
    t.line("if (" + same.substr(4) + ") return false;");
    t.line(std::string("left[0] = left_N; left[1] = left_D; left[2] = left_H; left[3] = left_W;") +
           (s_.variants == 1 ? "" : " left[4] = at.variant;"));
    t.line("return true;");
    t.line("}");
}

}  // namespace transfuse::cuda
