#include "cuda/dense/fragments.h"

#include <algorithm>
#include <array>
#include <functional>

#include "cuda/dense/fragment_chain.h"
#include "cuda/expression.h"

namespace transfuse::cuda {

namespace {

class FragmentProgram {
public:
    FragmentProgram(const Epilogue& epilogue, const Schedule& s, const Config& c)
        : epilogue_(epilogue),
          program_(epilogue.program()),
          s_(s),
          c_(c),
          chain_(epilogue, t),
          needs_(program_.needs(s.phases_w)),
          pooled_(program_.pool.has_value()) {
        for (size_t a = 0; a < 4; ++a) reach_[a] = static_cast<int>(std::max<int64_t>(1, needs_.pool[a] / s.period[a]));
        find_columns();
    }

    std::string text() {
        constants();
        t.line(
            "// The tile program on accumulators. Row r of a warp's 16 belongs to lane / 4 = r % 8; a lane has the "
            "columns 8j + 2(lane % 4) + {0, 1}.");
        t.line("template <int WG> struct Fragments {");
        members();
        insides();
        tile();
        finish();
        t.line("};");
        return t.str();
    }

private:
    // Columns of a lane after the pool: the first pixel of each window, and which 8-pixel groups hold its members.
    void find_columns() {
        if (!pooled_) {
            for (int j = 0; j < s_.run_pixels / 8; ++j)
                for (int f = 0; f < 2; ++f) columns_.push_back({j, f});
            return;
        }
        const int row = static_cast<int>(s_.extent[3]) / 8, plane = static_cast<int>(s_.extent[2]) * row,
                  image = static_cast<int>(s_.extent[1]) * plane;
        for (int n = 0; n < c_.run[0]; ++n)
            for (int d = 0; d < c_.run[1]; d += reach_[1])
                for (int h = 0; h < c_.run[2]; h += reach_[2])
                    for (int j = 0; j < (c_.run[3] + 7) / 8; ++j)
                        for (int f = 0; f < (reach_[3] == 1 ? 2 : 1); ++f)
                            columns_.push_back({n * image + d * plane + h * row + j, f});
        for (int d = 0; d < reach_[1]; ++d)
            for (int h = 0; h < reach_[2]; ++h) members_.push_back(d * plane + h * row);
    }

    void constants() {
        t.line("constexpr bool FRAGMENTS = true, FOLDED = false, BIASED = false;");
        auto constant = [&](const std::string& name, int64_t v) {
            t.line("constexpr int " + name + " = " + num(v) + ";");
        };
        constant("SEGMENTS", s_.segments), constant("WRITERS", fragment_writers(c_));
        constant("RESULTS", columns_.size()),
            constant("RESULT_ROWS", s_.segments > 1 ? 1 : 2);  // of a lane: columns and channels
        constant("STATS", epilogue_.stats()), constant("MASKS", pooled_ ? 1 : s_.blocks),
            constant("MASK_ROWS", !pooled_ && s_.segments > 1 ? 2 : 1);
        if (pooled_) {
            std::string list;
            for (const Column& c : columns_) list += (list.empty() ? "" : ", ") + num(c.group * 8 + c.pixel);
            t.line("__constant__ short result_pixels[] = {" + list +
                   "};   // each result's first pixel, but for the lane's own");
        } else {
            phases();
            t.line(
                "// A tile that no border cuts, but for the last column: rows of an odd length end so in every tile.");
            t.line(
                "static __device__ __forceinline__ constexpr bool is_whole(unsigned ends) { return ends >> 8 == (RUN_N "
                "<< 16 | RUN_D << 8 | RUN_H) && (ends & 255) + 1 >= RUN_W; }");
            t.line("// Whether result k of some lane lies in the last column or in the padding between rows.");
            t.line("static __device__ __forceinline__ constexpr bool at_the_end(int k) {");
            t.line("for (int p = k / 2 * 8 + k % 2, r = p / EXTENT_W; p < k / 2 * 8 + 8; p += 2, r = p / EXTENT_W)");
            t.line(
                "if (p % EXTENT_W + 1 >= RUN_W || r % EXTENT_H >= RUN_H || r / EXTENT_H % EXTENT_D >= RUN_D || r / "
                "(EXTENT_H * EXTENT_D) >= RUN_N) return true;");
            t.line("return false;");
            t.line("}");
        }
        t.line(std::string("typedef ") + (columns_.size() > 32 ? "unsigned long long" : "unsigned") + " Mask;");
    }

    // Which phase a segment of an accumulator belongs to: residues d·65536 + h·256 + w, −1: none.
    void phases() {
        std::vector<std::array<int, 2>> outer;
        const auto d = epilogue_.problem().axes[1].phases(), h = epilogue_.problem().axes[2].phases();
        for (size_t i = 0; i < d.size(); ++i)
            for (size_t j = 0; j < h.size(); ++j) outer.push_back({static_cast<int>(i), static_cast<int>(j)});
        const int groups = c_.split == Split::phases ? 2 : 1;
        std::string codes;
        for (int v = 0; v < s_.variants; ++v)
            for (int g = 0; g < 2; ++g)
                for (int block = 0; block < s_.blocks; ++block)
                    for (int segment = 0; segment < s_.segments; ++segment) {
                        const bool side = s_.phases_w <= s_.segments;  // several outer phases share an accumulator
                        const int bundle =
                            (v * groups + (groups == 2 ? g : 0)) * c_.bundles + block / s_.planes_per_bundle;
                        const int within = side ? segment / s_.phases_w : 0,
                                  w = side ? segment % s_.phases_w
                                           : block % s_.planes_per_bundle * s_.segments + segment;
                        const int o = bundle * s_.bundle_phases + within;
                        const bool real =
                            within < s_.bundle_phases && o < static_cast<int>(outer.size()) && w < s_.phases_w;
                        codes += (codes.empty() ? "" : ", ") + num(real ? outer[static_cast<size_t>(o)][0] * 65536 +
                                                                              outer[static_cast<size_t>(o)][1] * 256 + w
                                                                        : -1);
                    }
        t.line("__constant__ int segment_phases[] = {" + codes +
               "};   // [variant][warpgroup][accumulator][segment]: residue along d * 65536 + h * 256 + w");
    }

    // Where windows join lanes, the first of them counts; empty where all do.
    std::string counts() const {
        std::string found;
        auto also = [&](const std::string& condition) { found += (found.empty() ? "" : " && ") + condition; };
        if (pooled_ && s_.segments >= 4) also("segment == 0");
        if (pooled_ && reach_[3] > 2) also("lane % " + num(reach_[3] / 2) + " == 0");
        return found;
    }

    // Whether every statistic is a sum: they begin with 0 and are added.
    bool are_sums() const {
        const auto& partials = epilogue_.partials();
        return std::all_of(partials.begin(), partials.end(),
                           [](const Partial& p) { return is_one_number(p) && joining(p) == Op::sum; });
    }

    void joins() {
        t.line("// Sums of exponentials, each relative to the largest value of its own.");
        t.line(
            "static __device__ __forceinline__ void join_exponentials(REAL& top, REAL& mass, REAL top2, REAL mass2) {");
        t.line("const REAL now = tf_max(top, top2), below = now == __int_as_float(0xff800000) ? (REAL)0 : now;");
        t.line("mass = mass * tf_exp_below(top, below) + mass2 * tf_exp_below(top2, below);");
        t.line("top = now;");
        t.line("}");
        t.line("__device__ __forceinline__ void clear(REAL (&to)[RESULT_ROWS][STATS]) {");
        t.line("#pragma unroll");
        t.line("for (int i = 0; i < RESULT_ROWS; i++) {");
        each_stat([&](const Partial& p, const std::string& k) {
            t.line("to[i][" + k + "] = " + identity(p.reduction.op) + ";");
            if (p.reduction.op == Op::var) t.line("to[i][" + k + " + 1] = to[i][" + k + " + 2] = 0;");
            if (p.reduction.op == Op::logsumexp) t.line("to[i][" + k + " + 1] = 0;");
        });
        t.line("}");
        t.line("}");
    }

    void members() {
        t.line("const REAL* table;");
        t.line("const Sizes& s;");
        t.line("const Operands& operands;");
        t.line(
            "int warpgroup, column, channel, segment;   // of the lane: first column; first row's channel and segment");
        if (!counts().empty()) t.line("bool counts;                      // false: another lane has the same results");
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
        t.line(std::string("REAL sums[RESULT_ROWS][STATS]") + (are_sums() ? " = {};" : ";"));
        t.line("template <int N> static __device__ __forceinline__ void load_rows(REAL (&r)[N], const REAL* from) {");
        t.line("#pragma unroll");
        t.line("for (int i = 0; i < N; i++) r[i] = from[SEGMENTS > 1 ? 0 : i * 8];");
        t.line("}");
        if (!are_sums()) joins();
        t.line(
            "__device__ __forceinline__ Fragments(const unsigned char* shared, const Sizes& sizes, const Operands& "
            "given, int warpgroup, int t) : table((const REAL*)(shared + TABLES_AT)), s(sizes), operands(given), "
            "warpgroup(warpgroup) {");
        t.line("const int lane = t % 32, row = lane / 4, warp = t / 32;");
        t.line("column = lane % 4 * 2;");
        t.line(
            "channel = (SPLIT_CHANNELS ? warpgroup * 64 : 0) + (SEGMENTS > 1 ? warp * (16 / SEGMENTS) + row % (16 / "
            "SEGMENTS) : warp * 16 + row);");
        t.line(
            "segment = SEGMENTS >= 4 ? row / 4 * 2 + (SEGMENTS == 8 ? row / 2 % 2 * 4 : 0) : 0;   // the second row: "
            "one more");
        if (!counts().empty()) t.line("counts = " + counts() + ";");
        if (!are_sums()) t.line("clear(sums);");
        t.line("}");
    }

    // Which results lie in the output. Tiles inside alternate with tiles at a border: two answers are kept.
    void insides() {
        t.line("__device__ __forceinline__ Mask find_inside(Inside& known, const Place& at, int code) {");
        for (int a = 0; a < 4; ++a) {
            static const char* names[4] = {"N", "D", "H", "W"};
            static const char* residues[4] = {"0", "(code >> 16)", "(code >> 8 & 255)", "(code & 255)"};
            const std::string x = names[a], out = "s.out[" + num(a) + "]";
            const std::string end = pooled_
                                        ? out + " / " + num(needs_.pool[static_cast<size_t>(a)]) + " * " +
                                              num(reach_[static_cast<size_t>(a)])
                                        : "(" + out + " - " + residues[a] + " + PERIOD_" + x + " - 1) / PERIOD_" + x;
            t.line("const unsigned end_" + x + " = max(0, min(RUN_" + x + ", " + end + " - at.u[" + num(a) +
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
        if (pooled_) return;
        t.line("// Whether the output ends elsewhere in this tile than in the last one.");
        t.line("__device__ __forceinline__ bool ends_elsewhere(const Place& at) {");
        std::string same = s_.variants == 1 ? "" : " && at.variant == left[4]";
        for (int a = 0; a < 4; ++a) {
            static const char* names[4] = {"N", "D", "H", "W"};
            const std::string x = names[a], k = num(a);
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

    void tile() {
        t.line("__device__ __forceinline__ void tile(REAL (&acc)[BLOCKS][ACCUMULATORS], const Place& at, int tile) {");
        t.line(
            "const int group = at.fixed / MGROUPS, first_channel = at.fixed % MGROUPS * (BLOCKS_PER_TILE * 64) + "
            "channel, image = at.u[0];");
        t.line("(void)group, (void)first_channel, (void)image;");
        t.line("#define CHANNEL(i) (first_channel + (SEGMENTS > 1 ? 0 : (i) * 8))");
        t.line("#define CHANNEL_OK(i) (CHANNEL(i) < COUT)");
        t.line(std::string("REAL parts[RESULT_ROWS][STATS]") + (are_sums() ? " = {};" : ";"));
        if (!are_sums()) t.line("clear(parts);");
        pooled_ ? pooled_tile() : plain_tile();
        const std::string row =
            "(tile / PARTS * VARIANTS + tile % PARTS / FIXED) * WRITERS + (WRITERS > 1 ? warpgroup : 0)";
        if (fragment_rows_per_tile(epilogue_, s_)) {
            t.line("write(parts, group * COUT + first_channel, first_channel, s.total / FIXED * WRITERS, " + row +
                   ");");
        } else {
            t.line("#pragma unroll");
            t.line("for (int i = 0; i < RESULT_ROWS; i++) {");
            join_all("sums[i]", [](const std::string& n) { return "parts[i][" + n + "]"; });
            t.line("}");
        }
        t.line("#undef CHANNEL");
        t.line("#undef CHANNEL_OK");
        t.line("}");
    }

    void plain_tile() {
        t.line("constexpr int BATCH = 2, VECTOR = RESULTS;");
        t.line("if (ends_elsewhere(at))");
        t.line("#pragma unroll");
        t.line("for (int b = 0; b < BLOCKS; b++)");
        t.line("#pragma unroll");
        t.line(
            "for (int i = 0; i < MASK_ROWS; i++) find_inside(inside[b][i], at, segment_phases[((at.variant * 2 + "
            "warpgroup) * BLOCKS + b) * SEGMENTS + segment + i]);");
        t.line("#pragma unroll");
        t.line("for (int b = 0; b < BLOCKS; b++) {");
        t.line("Mask mask[MASK_ROWS];");
        t.line("#pragma unroll");
        t.line("for (int i = 0; i < MASK_ROWS; i++) mask[i] = inside[b][i].mask;");
        // Inside the image only results that may lie at the end of a row are looked at one by one.
        const std::string mask = "mask[SEGMENTS > 1 ? i : 0]", row = "SEGMENTS > 1 ? 0 : i";
        // A long chain is written out once.
        const bool once = program_.chain_instructions > long_chain;
        if (!once) {
            t.line("if (is_whole(inside[b][0].ends) && is_whole(inside[b][MASK_ROWS - 1].ends)) {");
            chain_.on_accumulators("b");
            add(mask, row, "!at_the_end(e) || ");
            t.line("} else {");
            chain_.forget();
        }
        chain_.on_accumulators("b");
        add(mask, row);
        if (!once) t.line("}");
        t.line("}");
    }

    // Every phase of a window is an accumulator, a row or a lane; its neighbours are columns of the lane or of the next
    // lanes.
    void pooled_tile() {
        const std::string pooled = "v" + num(program_.pool_value);
        const bool sums = program_.pool->kind == TilePool::Kind::sum;
        const Op op = program_.pool->kind == TilePool::Kind::max ? Op::amax : sums ? Op::sum : Op::amin;
        std::string members;
        for (int m : members_) members += (members.empty() ? "" : ", ") + num(m);
        std::string groups;
        for (const Column& c : columns_) groups += (groups.empty() ? "" : ", ") + num(c.group);
        t.line("constexpr int members[] = {" + members + "}, groups[] = {" + groups + "};   // in 8-pixel groups");
        t.line("REAL " + pooled + "[RESULT_ROWS][RESULTS];");
        t.line("#pragma unroll");
        t.line("for (int i = 0; i < RESULT_ROWS * RESULTS; i++) " + pooled +
               "[i / RESULTS][i % RESULTS] = " + identity(op) + ";");
        t.line("#pragma unroll");
        t.line("for (int b = 0; b < BLOCKS; b++) {");
        t.line("constexpr int BATCH = 2, VECTOR = ACCUMULATORS / 2;");
        chain_.on_accumulators("b");
        const ValueId before = epilogue_.graph()[program_.pool_value].args[0];
        const Chain::Kind kind = chain_.kind(before);
        t.line("#pragma unroll");
        t.line("for (int i = 0; i < BATCH; i++)");
        t.line("#pragma unroll");
        t.line("for (int k = 0; k < RESULTS; k++)");
        t.line("#pragma unroll");
        t.line("for (int m = 0; m < " + num(static_cast<int64_t>(members_.size())) + "; m++)");
        t.line("#pragma unroll");
        t.line(reach_[3] == 1 ? "for (int f = k % 2; f <= k % 2; f++) {" : "for (int f = 0; f < 2; f++) {");
        const std::string to = pooled + "[SEGMENTS > 1 ? 0 : i][k]";
        t.line(to + " = " +
               combined(
                   op, to,
                   chain_.name(before) + (kind.c ? "[i]" : "") + (kind.x ? "[(groups[k] + members[m]) * 2 + f]" : "")) +
               ";");
        t.line("}");
        t.line("}");
        std::vector<int> lanes;
        for (int k = 2; k < reach_[3]; k *= 2) lanes.push_back(k / 2);
        if (s_.segments >= 4) lanes.push_back(16);
        if (s_.segments >= 8) lanes.push_back(8);
        t.line("constexpr int BATCH = RESULT_ROWS, VECTOR = RESULTS;");
        const Chain::Kind all{true, true};
        for (int k : lanes) {
            chain_.loops(all);
            t.line(pooled + "[i][e] = " +
                   combined(op, pooled + "[i][e]", "__shfl_xor_sync(~0u, " + pooled + "[i][e], " + num(k) + ")") + ";");
        }
        if (sums && program_.pool->scale != 1) {
            chain_.loops(all);
            t.line(pooled + "[i][e] *= " + literal(program_.pool->scale, epilogue_.real()) + ";");
        }
        chain_.begin_after_pool(pooled);
        chain_.steps(true);
        t.line("const Mask mask = find_inside(inside[0][0], at, 0);");
        add("mask", "i");
    }

    // All statistics of a result at once, so that its mask is looked at once.
    void add(const std::string& mask, const std::string& row, const std::string& unless = "") {
        std::vector<std::string> values;
        bool one_number = false;
        each_stat([&](const Partial& p, const std::string&) {
            values.push_back(chain_.operand(p.reduction.of)), one_number |= is_one_number(p);
        });
        size_t n = 0;
        if (one_number) {
            t.line("#pragma unroll");
            t.line("for (int e = 0; e < VECTOR; e++)");
            t.line("#pragma unroll");
            t.line("for (int i = 0; i < BATCH; i++)");
            t.line("if (" + unless + mask + " >> e & 1) {");
            each_stat([&](const Partial& p, const std::string& k) {
                const std::string part = "parts[" + row + "][" + k + "]", value = values[n++];
                if (is_one_number(p)) t.line(part + " = " + combined(joining(p), part, value) + ";");
            });
            t.line("}");
        }
        n = 0;
        each_stat([&](const Partial& p, const std::string& k) {
            const std::string value = values[n++];
            if (is_one_number(p)) return;
            if (p.reduction.op == Op::logsumexp) {
                // Exponentials relative to the largest value: of those before and of these. Outside the output it is as
                // if there were the lowest: a choice of values compiles in half the time that as many branches take.
                const std::string top = "parts[" + row + "][" + k + "]", mass = "parts[" + row + "][" + k + " + 1]",
                                  each = "for (int e = 0; e < VECTOR; e++) ";
                t.line("#pragma unroll");
                t.line("for (int i = 0; i < BATCH; i++) {");
                t.line("REAL now = " + top + ", sum = 0, here[VECTOR];");
                t.line("#pragma unroll");
                t.line(each + "now = tf_max(now, here[e] = " + unless + mask + " >> e & 1 ? " + value +
                       " : __int_as_float(0xff800000));");
                t.line("const REAL below = now == __int_as_float(0xff800000) ? (REAL)0 : now;");
                t.line("#pragma unroll");
                t.line(each + "sum += tf_exp_below(here[e], below);");
                t.line(mass + " = " + mass + " * tf_exp_below(" + top + ", below) + sum;");
                t.line(top + " = now;");
                t.line("}");
                return;
            }
            // Squares about the lane's own mean, joined with what there is.
            t.line("#pragma unroll");
            t.line("for (int i = 0; i < BATCH; i++) {");
            t.line("REAL sum = 0, squares = 0;");
            t.line("#pragma unroll");
            t.line("for (int e = 0; e < VECTOR; e++) if (" + mask + " >> e & 1) sum += " + value + ";");
            t.line("const REAL n = __popcll(" + mask + "), mean = n > 0 ? sum / n : (REAL)0;");
            t.line("#pragma unroll");
            t.line("for (int e = 0; e < VECTOR; e++) if (" + mask + " >> e & 1) squares += (" + value + " - mean) * (" +
                   value + " - mean);");
            const std::string to = "parts[" + row + "]";
            t.line("tf_join_moments(" + to + "[" + k + "], " + to + "[" + k + " + 1], " + to + "[" + k +
                   " + 2], n, mean, squares);");
            t.line("}");
        });
    }

    // Joins another lane's or tile's partial into `to`, statistic k of it.
    void join(const Partial& p, const std::string& k, const std::string& to,
              const std::function<std::string(const std::string&)>& other) {
        if (p.reduction.op == Op::var)
            t.line("tf_join_moments(" + to + "[" + k + "], " + to + "[" + k + " + 1], " + to + "[" + k + " + 2], " +
                   other(k) + ", " + other(k + " + 1") + ", " + other(k + " + 2") + ");");
        else if (p.reduction.op == Op::logsumexp)
            t.line("join_exponentials(" + to + "[" + k + "], " + to + "[" + k + " + 1], " + other(k) + ", " +
                   other(k + " + 1") + ");");
        else
            t.line(to + "[" + k + "] = " + combined(joining(p), to + "[" + k + "]", other(k)) + ";");
    }

    void join_all(const std::string& to, const std::function<std::string(const std::string&)>& other) {
        if (!are_sums()) return each_stat([&](const Partial& p, const std::string& k) { join(p, k, to, other); });
        t.line("#pragma unroll");
        t.line("for (int k = 0; k < STATS; k++) " + to + "[k] += " + other("k") + ";");
    }

    // A channel's results over the lanes that share it, in a fixed order, to the writer's row.
    void finish() {
        t.line(
            "__device__ __forceinline__ void write(REAL (&parts)[RESULT_ROWS][STATS], int channel_at, int "
            "channel_in_group, long long rows, long long row) {");
        t.line("#pragma unroll");
        t.line("for (int i = 0; i < RESULT_ROWS; i++) {");
        std::vector<int> lanes{1, 2};
        if (s_.segments >= 4) lanes.push_back(16);
        if (s_.segments >= 8) lanes.push_back(8);
        for (int k : lanes)
            join_all("parts[i]",
                     [&](const std::string& m) { return "__shfl_xor_sync(~0u, parts[i][" + m + "], " + num(k) + ")"; });
        t.line("if (column == 0 && segment == 0 && channel_in_group + i * 8 < COUT) {");
        t.line("#pragma unroll");
        t.line("for (int k = 0; k < STATS; k++) operands.partial[(k * rows + row) * " + num(epilogue_.channels()) +
               " + channel_at + i * 8] = parts[i][k];");
        t.line("}");
        t.line("}");
        t.line("}");
        t.line("__device__ __forceinline__ void finish() {");
        if (!fragment_rows_per_tile(epilogue_, s_))
            t.line(
                "write(sums, channel, channel, gridDim.x * WRITERS, blockIdx.x * WRITERS + (WRITERS > 1 ? warpgroup : "
                "0));");
        t.line("}");
    }

    template <class F>
    void each_stat(F&& each) {
        for (const Partial& p : epilogue_.partials()) each(p, num(p.first_stat));
    }
    static bool is_one_number(const Partial& p) { return p.reduction.op != Op::var && p.reduction.op != Op::logsumexp; }
    static Op joining(const Partial& p) { return p.reduction.op == Op::mean ? Op::sum : p.reduction.op; }

    struct Column {
        int group, pixel;
    };  // 8-pixel group, and pixel of the lane's two
    const Epilogue& epilogue_;
    const TileProgram& program_;
    const Schedule& s_;
    const Config& c_;
    Lines t;
    FragmentChain chain_;
    const Needs needs_;
    const bool pooled_;
    std::array<int, 4> reach_{};
    std::vector<Column> columns_;
    std::vector<int> members_;
};

}  // namespace

std::string statistics_program(const Epilogue& epilogue, const Schedule& schedule, const Config& config) {
    return FragmentProgram(epilogue, schedule, config).text();
}

}  // namespace transfuse::cuda
