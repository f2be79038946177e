#include "cuda/dense/write/constants.h"

#include "cuda/kernel/lines.h"

namespace transfuse::cuda {

namespace {

class ConstantsWriter {
public:
    ConstantsWriter(const Problem& problem, const Config& config, const Schedule& s, const Epilogue& epilogue)
        : problem_(problem), config_(config), s_(s), epilogue_(epilogue) {}

    std::string text() {
        numbers();
        flags();
        types();
        chunks();
        slabs();
        reaches();
        return t.str();
    }

private:
    void flag(const std::string& name, bool v) { t.line("constexpr bool " + name + (v ? " = true;" : " = false;")); }

    void numbers() {
        t.constants({{"STORE_GROUPS", config_.store_groups}, {"THREADS", config_.threads()}, {"LOADERS", 128}});
        t.constants({{"CIN", problem_.cin}, {"COUT", problem_.cout}, {"GROUPS", problem_.groups}});
        t.constants({{"MGROUPS", s_.m_groups}, {"BLOCKS_PER_TILE", s_.blocks_per_tile}});
        t.constants({{"FIXED", s_.fixed}, {"VARIANTS", s_.variants}, {"PARTS", s_.fixed * s_.variants}});
        for (size_t a = 0; a < 4; ++a) {
            const std::string x = axis_names[a];
            t.constants({{"TILE_" + x, s_.tile[a]}, {"RUN_" + x, config_.run[a]}, {"EXTENT_" + x, s_.extent[a]}});
            t.constants({{"FIRST_" + x, s_.first[a]}, {"ADVANCE_" + x, s_.advance[a]}, {"PERIOD_" + x, s_.period[a]}});
            t.constants({{"SECOND_" + x, config_.runs[a] > 1 ? config_.run[a] : 0}});
        }
        t.constants({{"PIXELS", s_.pixels}, {"RAW_PIXELS", s_.raw_pixels}});
        t.constants({{"IN_W", config_.flat ? problem_.axes[3].in : 1}, {"PLANE", s_.plane}});
        t.constants({{"RUN_PIXELS", s_.run_pixels}});
        t.constants({{"LANES", problem_.lanes()}, {"VECTORS", s_.vectors}, {"TERMS", problem_.terms()}});
        t.constants({{"STAGE_CHANNELS", s_.vectors * problem_.lanes()}, {"KSTAGES", s_.k_stages}});
        t.constants({{"K_STEPS", config_.k_steps}, {"KSTEPS", s_.k_steps(config_)}});
        t.constants(
            {{"STAGES", config_.stages}, {"RAW", config_.raw}, {"PIECE", config_.piece}, {"PIECES", s_.pieces}});
        t.constants({{"SLABS", config_.resident ? 1 : config_.slabs}, {"SLAB_BYTES", s_.slab_bytes}});
        t.constants({{"TILE_BYTES", s_.tile_bytes}, {"OPERAND_TILES", static_cast<int64_t>(s_.tiles.size())}});
        t.constants({{"BUFFERS", config_.buffers}, {"CHUNKS", s_.chunk_count}, {"CHUNK_WIDTH", config_.chunk_width}});
        t.constants({{"CHUNK_ROWS", s_.chunk_rows}, {"ROW_LENGTH", s_.row_length}, {"SETS", s_.sets}});
        t.constants({{"PLANES", s_.planes}, {"ROWS_PER_PLANE", s_.rows_per_plane}});
        t.constants({{"ROWS_PER_GROUP", s_.rows_per_group}, {"BLOCK_ROWS", s_.block_rows}});
        t.constants({{"PITCH", s_.pitch}, {"BLOCKS", s_.blocks}, {"ACCUMULATORS", s_.accumulators}});
        t.constants({{"STAGE_BYTES", s_.stage_bytes}, {"RAW_BYTES", s_.raw_bytes}, {"CHUNK_BYTES", s_.chunk_bytes}});
        t.constants({{"WEIGHTS_AT", s_.weights_at}, {"STAGES_AT", s_.stages_at}, {"RAW_AT", s_.raw_at}});
        t.constants({{"CHUNKS_AT", s_.chunks_at}, {"AHEAD_AT", s_.ahead_at}, {"AHEAD_BYTES", s_.ahead_bytes}});
        t.constants({{"TABLES_AT", s_.tables_at}, {"PLACES_AT", s_.places_at}});
        // Raw values a load thread holds.
        t.constants({{"HELD_VALUES", config_.store_groups > 1 || problem_.lanes() == 8 ? 16 : 32}});
    }

    void flags() {
        flag("RESIDENT", config_.resident), flag("JOINT", s_.joint),
            flag("SPLIT_CHANNELS", config_.split == Split::channels);
        flag("PIXEL_MAJOR", s_.pixel_major), flag("FLAT", config_.flat);
        flag("PLACES_AHEAD", config_.exit == Exit::swap_ab);  // their chains end what no product overlaps
        flag("REDUCED", epilogue_.leaving().exit == Exit::reduced);
    }

    // How the patch comes, and the types of what it holds.
    void types() {
        t.line(
            "enum { LOAD_PLANAR, LOAD_VECTORS, LOAD_DIRECT, LOAD_PAIRS, LOAD_SINGLES, LOAD_ROWS, LOAD_BOXES, "
            "LOAD_OPERAND" +
            std::string(problem_.load == LoadMode::unaligned_rows ? ", LOAD_UNALIGNED_ROWS"
                        : problem_.load == LoadMode::vector_boxes ? ", LOAD_VECTOR_BOXES"
                                                                  : "") +
            " };");
        static const char* modes[] = {"LOAD_PLANAR",         "LOAD_VECTORS",     "LOAD_DIRECT", "LOAD_PAIRS",
                                      "LOAD_SINGLES",        "LOAD_ROWS",        "LOAD_BOXES",  "LOAD_OPERAND",
                                      "LOAD_UNALIGNED_ROWS", "LOAD_VECTOR_BOXES"};
        t.line("constexpr int LOAD = " + std::string(modes[static_cast<int>(problem_.load)]) + ";");
        t.line("typedef " + std::string(element_name(problem_.arithmetic)) + " ELEMENT;");
        t.line(std::string("typedef ") + (problem_.real_bytes() == 8 ? "double" : "float") + " REAL;");
        t.line(std::string("typedef ") + (problem_.wide_offsets ? "long long" : "int") + " OFFSET;");
    }

    void chunks() {
        t.line("static __device__ __forceinline__ constexpr int chunk_row_start(int r) { constexpr int start[] = {" +
               listed(s_.chunk_row_start) + "}; return start[r]; }");
    }

    // Which operand tiles each slab of a variant has.
    void slabs() {
        if (s_.variants == 1) {
            const auto& one = s_.slabs[0];
            t.line("static __device__ __forceinline__ int slab_first(int, int slab) { return min(slab * " +
                   num(one.size() > 2 ? one[1] - one[0] : one.back() - one[0]) + ", " + num(one.back()) + "); }");
            t.line("static __device__ __forceinline__ int slab_count(int) { return " +
                   num(static_cast<int64_t>(one.size()) - 1) + "; }");
            return;
        }
        std::vector<size_t> firsts, counts, begins;
        for (const auto& slabs : s_.slabs) {
            begins.push_back(firsts.size()), counts.push_back(slabs.size() - 1);
            firsts.insert(firsts.end(), slabs.begin(), slabs.end());
        }
        t.line("__constant__ int slab_firsts[] = {" + listed(firsts) + "}, slab_begins[] = {" + listed(begins) +
               "}, slab_counts[] = {" + listed(counts) + "};");
        t.line(
            "static __device__ __forceinline__ int slab_first(int variant, int slab) { return "
            "slab_firsts[slab_begins[variant] + slab]; }");
        t.line("static __device__ __forceinline__ int slab_count(int variant) { return slab_counts[variant]; }");
    }

    // Which windows a slab has, for tiles that leave some out.
    void reaches() {
        flag("SKIPS", config_.skips);
        if (!config_.skips) {
            t.line("static __device__ __forceinline__ const int* slab_reach(int, int) { return nullptr; }");
            return;
        }
        std::vector<int64_t> reaches;
        for (const auto& slabs : s_.slabs)
            for (size_t i = 0; i < slabs.size(); ++i)
                for (const auto& reach : s_.reach_of(slabs[i], i + 1 < slabs.size() ? slabs[i + 1] : slabs[i]))
                    reaches.push_back(reach.first), reaches.push_back(reach.last);
        t.line("__constant__ int slab_reaches[] = {" + listed(reaches) +
               "};   // first and last shift along d, along h");
        t.line(
            "static __device__ __forceinline__ const int* slab_reach(int variant, int slab) { return slab_reaches + 4 "
            "* (" +
            std::string(s_.variants > 1 ? "slab_begins[variant] + " : "") + "slab); }");
    }

    const Problem& problem_;
    const Config& config_;
    const Schedule& s_;
    const Epilogue& epilogue_;
    Lines t;
};

}  // namespace

std::string_view element_name(Arithmetic a) {
    return a == Arithmetic::f16    ? "tf_half"
           : a == Arithmetic::bf16 ? "tf_bfloat"
           : a == Arithmetic::f64  ? "double"
                                   : "float";
}

std::string dense_constants(const Problem& problem, const Config& config, const Schedule& schedule,
                            const Epilogue& epilogue) {
    return ConstantsWriter(problem, config, schedule, epilogue).text();
}

}  // namespace transfuse::cuda
