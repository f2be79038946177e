#include "cuda/dense/write/multiply.h"

#include <algorithm>

#include "cuda/dense/schedule/serpentine.h"
#include "cuda/dense/write/rolled.h"
#include "cuda/dense/write/strict.h"
#include "cuda/kernel/lines.h"

namespace transfuse::cuda {

namespace {

// So many slabs of one accumulator's windows that the tap loop is better a loop.
bool loops(const Config& config, const Schedule& s, int variant) {
    return config.exit != Exit::swap_ab && !config.resident && s.blocks == 1 && s.variants == 1 && !s.pairs &&
           config.split != Split::phases && s.slabs[static_cast<size_t>(variant)].size() > 7;
}

class MultiplyWriter {
public:
    MultiplyWriter(const Problem& problem, const Config& config, const Schedule& s)
        : config_(config),
          s_(s),
          shared_text_(!loops(config, s, 0) && rolls_slabs(config, s, problem.terms())),
          rolled_as_(rolled_variants(config, s, problem.terms())),
          shift_(config.exit == Exit::swap_ab ? shift_of_variants(s) : std::nullopt),
          strict_(problem.terms() == 2),
          serpentine_(serpentine(problem, config, s)),
          at_once_(problem.family == Family::mma),
          strict_products_(t, strict_ ? strict_terms(config, s) : 1, problem.family == Family::wgmma,
                           static_cast<int64_t>(s.vectors) * s.plane) {}

    std::string written() {
        write_tables();
        t.line(
            "template <int WG> static __device__ __forceinline__ void multiply(REAL (&acc)[BLOCKS][ACCUMULATORS], "
            "Totals& total, unsigned patch, unsigned weights, Barriers& b, int stage, int slot, int warpgroup, const "
            "Place& at, const Sizes& s, int& slab, int& slab_turn, Held& held) {");
        t.line("unsigned long long pixels = descriptor(patch, PLANE * 16, " +
               std::string(config_.strip ? "EXTENT_W * 16" : "128") + "), tiles;");
        if (config_.split == Split::pixels && s_.run_offset)
            t.line("pixels += " + std::string(s_.unbroken ? "at.start + " : "") + "warpgroup * " + num(s_.run_offset) +
                   (shift_ ? " + at.variant * " + num(*shift_) : "") + ";");
        t.line("(void)slab, (void)slab_turn, (void)b, (void)at, (void)s, (void)total;");
        if (config_.skips) t.line("bool met = false;");
        if (serpentine_) {
            t.line("slab = step_of(stage, at.round) % SLABS;");
            t.line("slab_turn = slab < KSTEPS - SLABS ? at.round + (stage >= SLABS) : 0;");
        }
        for (int v = 0; v < (shift_ ? 1 : s_.variants); ++v)
            if (rolled_as_[static_cast<size_t>(v)] == v) write_variant(v);
        if (config_.skips) {
            // The stage goes with the last products, whichever they were; without any it goes at once.
            t.line("if (!met) held.release(b);");
            t.line("held.stage = slot;");
            if (strict_ || at_once_) t.line("held.release(b);");
        }
        t.line("}");
        return t.str();
    }

private:
    // One body of products: a variant's, of one warpgroup where each has its own phases, of one step along K.
    struct Body {
        int variant, group, k;
        bool several;  // variants take this text
    };
    // Slabs of weights one after another whose products differ in their windows alone; `windows` from the table.
    struct Run {
        size_t first, count;
        int begin, end;  // the first slab's tiles
        bool tabled, last;
    };

    const std::vector<WindowStep>& steps_of(const Body& body) const {
        return s_.steps[static_cast<size_t>(body.variant)][static_cast<size_t>(body.group)];
    }
    const std::vector<int>& slabs_of(const Body& body) const { return s_.slabs[static_cast<size_t>(body.variant)]; }
    size_t slab_count(const Body& body) const { return config_.resident ? 1 : slabs_of(body).size() - 1; }
    bool ends_stage(const Body& body) const { return body.k == config_.k_steps - 1 && !config_.skips; }

    void write_tables() {
        if (loops(config_, s_, 0) || shared_text_) {
            std::vector<int> places;
            for (const auto& lists : s_.steps) {
                begins_.push_back(static_cast<int>(places.size()));
                for (size_t g = 0; g < (config_.split == Split::phases ? 2 : 1); ++g)
                    for (const WindowStep& step : lists[g]) places.push_back(static_cast<int>(step.pixel));
            }
            t.line("__constant__ int windows[] = {" + listed(places) + "};   // first pixel of each tap's window");
        }
        if (none_rolled(rolled_as_)) return;
        t.line("__constant__ int rolled_as[] = {" + listed(rolled_as_) +
               "};   // the variant whose text has the same products");
        t.line("__constant__ int window_begins[] = {" + listed(begins_) + "};");
    }

    void write_variant(int v) {
        const bool several = std::count(rolled_as_.begin(), rolled_as_.end(), v) > 1;
        const int bodies = config_.split == Split::phases ? 2 : 1;
        if (s_.variants > 1 && !shift_)
            t.line((v ? "else if (" : "if (") + std::string(several ? "rolled_as[at.variant]" : "at.variant") +
                   " == " + num(v) + ") {");
        for (int g = 0; g < bodies; ++g) {
            if (bodies == 2) t.line("if constexpr (WG == " + num(g) + ") {");
            if (strict_ && config_.resident) {
                write_strict_resident({v, g, 0, several});
            } else {
                for (int k = 0; k < config_.k_steps; ++k) write_body({v, g, k, several});
            }
            if (bodies == 2) t.line("}");
        }
        if (s_.variants > 1 && !shift_) t.line("}");
    }

    // All steps along K are one chain of strict products.
    void write_strict_resident(Body body) {
        t.line("tiles = descriptor(weights + stage * (K_STEPS * OPERAND_TILES * TILE_BYTES), 1024, 128);");
        own_tiles();
        std::vector<StrictStep> steps;
        for (body.k = 0; body.k < config_.k_steps; ++body.k)
            for (const WindowStep& step : steps_of(body)) {
                const int64_t tile = static_cast<int64_t>(body.k) * static_cast<int64_t>(s_.tiles.size()) + step.tile;
                steps.push_back({step.block, tile * s_.tile_bytes / 16, step.pixel + place_of(step, body), ""});
            }
        t.line("products_begin();");
        strict_products_(steps);
        t.line("held.stage = slot;");
        t.line("held.release(b);");
    }

    void write_body(const Body& body) {
        if (config_.resident) {
            t.line("tiles = descriptor(weights + (stage * K_STEPS + " + num(body.k) +
                   ") * (OPERAND_TILES * TILE_BYTES), " + half() + ", 128);");
            own_tiles();
            if (body.k == 0) t.line("products_begin();");
        }
        if (loops(config_, s_, body.variant)) return write_loop(body);
        for (size_t slab = 0; slab < slab_count(body);) {
            const Run run = run_from(body, slab);
            write_run(body, run);
            slab += run.count;
        }
    }

    // Many taps: a loop over slabs, the windows' places in a table.
    void write_loop(const Body& body) {
        const int per = (slabs_of(body)[1] - slabs_of(body)[0]) / s_.blocks_per_tile,
                  rest = static_cast<int>(steps_of(body).size()) % per;
        const std::string last = num(static_cast<int64_t>(slab_count(body)) - 1);
        t.line("for (int part = 0; part < " + num(static_cast<int64_t>(slab_count(body))) + "; part++) {");
        if (config_.skips) t.line("if (!slab_meets(part, at, s)) continue;");
        if (config_.skips) t.line("met = true;");
        await_slab("const int* window = windows + part * " + num(per) + ";");
        if (strict_) {
            if (rest != 0) t.line("if (part < " + last + ") {");
            write_strict_part(body, per);
            if (rest != 0) {
                t.line("} else {");
                write_strict_part(body, rest);
                t.line("}");
            }
            t.line("held.slab = slab;");
            if (ends_stage(body)) t.line("if (part == " + last + ") held.stage = slot;");
            t.line("held.release(b);");
        } else {
            for (int i = 0; i < per; ++i) {
                if (rest != 0 && i >= rest) t.line("if (part < " + last + ")");
                t.line("{");
                t.line("product(acc[0], " +
                       operands("tiles + " + num(tile_of_part(i)) + "ll",
                                "pixels + (window[" + num(i) + "] + " + num(2 * body.k * s_.plane) + ")") +
                       ", " + (i > 0 || body.k > 0 || config_.skips ? "1" : "stage + part > 0") + ");");
                t.line("}");
            }
            commit();
            t.line("held.slab = slab;");
            if (ends_stage(body)) t.line("if (part == " + last + ") held.stage = slot;");
            if (at_once_) t.line("held.release(b);");
        }
        next_slab();
        t.line("}");
    }

    void write_strict_part(const Body& body, int count) {
        std::vector<StrictStep> steps;
        for (int i = 0; i < count; ++i)
            steps.push_back({0, tile_of_part(i), 2 * body.k * s_.plane, "window[" + num(i) + "] + "});
        strict_products_(steps);
    }

    Run run_from(const Body& body, size_t slab) const {
        const size_t slabs = slab_count(body);
        const auto& bounds = slabs_of(body);
        Run run{slab,  1,    config_.resident ? 0 : bounds[slab], config_.resident ? 1 << 30 : bounds[slab + 1],
                false, false};
        const auto shape = shape_of(steps_of(body), run.begin, run.end);
        while (shared_text_ && slab + run.count + 1 < slabs &&
               shape_of(steps_of(body), bounds[slab + run.count], bounds[slab + run.count + 1]) == shape)
            ++run.count;  // the last is apart: it ends the stage
        run.tabled = run.count > 1 || body.several;
        run.last = ends_stage(body) && slab + 1 == slabs;
        return run;
    }

    void write_run(const Body& body, const Run& run) {
        if (run.tabled) open_table(body, run);
        if (config_.skips) {
            t.line("if (slab_meets(" + num(static_cast<int64_t>(run.first)) + (run.count > 1 ? " + part" : "") +
                   ", at, s)) {");
            t.line("met = true;");
        }
        if (!config_.resident) await_slab();
        const std::vector<StrictStep> steps = write_steps(body, run);
        if (strict_) {
            strict_products_(steps);
            t.line("held.slab = slab;");
            if (run.last) t.line("held.stage = slot;");
            t.line("held.release(b);");
            next_slab();
        } else {
            if (!config_.resident || run.last) commit();
            if (run.last) t.line("held.stage = slot;");
            if (!config_.resident)
                t.line(serpentine_ ? "held.slab = stage < KSTEPS - SLABS ? slab : -1;" : "held.slab = slab;");
            if ((!config_.resident || run.last) && at_once_) t.line("held.release(b);");
            if (!config_.resident) next_slab();
        }
        if (config_.skips) t.line("}");
        if (run.tabled) t.line("}");
    }

    void open_table(const Body& body, const Run& run) {
        const auto& steps = steps_of(body);
        const auto own =
            std::find_if(steps.begin(), steps.end(), [&](const WindowStep& step) { return step.tile >= run.begin; }) -
            steps.begin();
        const auto variant = static_cast<size_t>(body.variant);
        const auto before = own + (body.group ? static_cast<ptrdiff_t>(s_.steps[variant][0].size()) : 0);
        const std::string from =
            body.several ? "window_begins[at.variant] + " + num(before) : num(begins_[variant] + before);
        const auto each = static_cast<int64_t>(shape_of(steps, run.begin, run.end).size());
        t.line(run.count > 1 ? "for (int part = 0; part < " + num(static_cast<int64_t>(run.count)) + "; part++) {"
                             : "{");
        t.line("const int* window = windows + " + from + (run.count > 1 ? " + part * " + num(each) : "") + ";");
    }

    // The products of a slab; strict ones are handed back, to be written as chains.
    std::vector<StrictStep> write_steps(const Body& body, const Run& run) {
        std::vector<StrictStep> steps;
        int nth = 0;
        for (const WindowStep& step : steps_of(body)) {
            if (step.tile < run.begin || step.tile >= run.end) continue;
            const std::string place = run.tabled ? "window[" + num(nth++) + "] + " : "";
            const int64_t tile = static_cast<int64_t>(step.tile - run.begin) * s_.tile_bytes / 16;
            const int64_t pixel = (run.tabled ? 0 : step.pixel) + place_of(step, body);
            if (strict_)
                steps.push_back({step.block, tile, pixel, place});
            else
                t.line("product(acc[" + num(step.block) + "], " +
                       operands("tiles + " + num(tile) + "ll", "pixels + " + place + num(pixel) + "ll") + ", " +
                       (!step.first || body.k > 0 || config_.skips ? "1" : "stage > 0") + ");");
        }
        return steps;
    }

    // From a window's first pixel to where its operand begins. Two taps in the K halves: the second window lies
    // `halves` pixels after the first.
    int64_t place_of(const WindowStep& step, const Body& body) const {
        return 2 * body.k * s_.plane + (s_.pairs ? (static_cast<int64_t>(step.halves) - s_.plane) * (1 << 16) : 0);
    }
    int64_t tile_of_part(int i) const { return static_cast<int64_t>(i) * s_.blocks_per_tile * s_.tile_bytes / 16; }

    std::string operands(const std::string& tile, const std::string& window) const {
        return config_.exit == Exit::swap_ab ? window + ", " + tile : tile + ", " + window;
    }
    std::string half() const { return num(16 * s_.operand_rows); }  // bytes of a K half of an operand tile
    void own_tiles() {
        if (config_.split == Split::channels) t.line("tiles += warpgroup * (TILE_BYTES / 16);");
    }
    void await_slab(const std::string& declared = "") {
        t.line("held.wait(shared_address(&b.weights_full[slab]), slab_turn & 1, b);");
        t.line("tiles = descriptor(weights + slab * SLAB_BYTES, " + half() + ", 128);");
        own_tiles();
        if (!declared.empty()) t.line(declared);
        t.line("products_begin();");
    }
    void commit() {
        t.line("products_commit();");
        t.line("products_wait<1>();");
        t.line("held.release(b);");
    }
    void next_slab() {
        if (!serpentine_) t.line("if (++slab == SLABS) { slab = 0; slab_turn++; }");
    }

    Lines t;
    const Config& config_;
    const Schedule& s_;
    const bool shared_text_;
    const std::vector<int> rolled_as_;
    const std::optional<int64_t> shift_;  // of a variant's windows from those of the one before, all else alike
    const bool strict_;
    const bool serpentine_;
    const bool at_once_;       // products are done when their instruction is: nothing is held
    std::vector<int> begins_;  // of a variant's windows in the table
    StrictProducts strict_products_;
};

}  // namespace

std::string multiply_function(const Problem& problem, const Config& config, const Schedule& s) {
    return MultiplyWriter(problem, config, s).written();
}

}  // namespace transfuse::cuda
