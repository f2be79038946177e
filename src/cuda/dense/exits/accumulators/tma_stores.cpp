#include "cuda/dense/exits/accumulators/tma_stores.h"

#include <algorithm>
#include <array>

#include "cuda/dense/exits/accumulators/added_tensors.h"
#include "cuda/dense/exits/accumulators/fragment_chain.h"
#include "cuda/dense/exits/accumulators/fragments.h"
#include "cuda/kernel/expression.h"

namespace transfuse::cuda {

namespace {

// Reductions over channels: a lane's rows, the lanes of a warp, then the warps that hold a pixel's channels, through
// shared memory.
class BoxChain : public FragmentChain {
public:
    BoxChain(const Epilogue& epilogue, Lines& lines, const BoxShape& box) : FragmentChain(epilogue, lines), box_(box) {}

protected:
    void load_elements(const std::string& name, size_t read, Kind kind) override {
        const auto& added = epilogue_.added();
        const auto at = std::find(added.begin(), added.end(), read);
        if (at == added.end()) return FragmentChain::load_elements(name, read, kind);
        const auto number = static_cast<size_t>(at - added.begin());
        const DType dtype = epilogue_.reads()[read].dtype;
        if (bytes(dtype) == 2)
            added_pairs(t, name, number, std::string(storage_name(dtype)));
        else
            added_words(t, box_, name, number);
    }
    void across(const std::string& result, Op op, const std::string& term) override {
        const Kind x{false, true};
        const std::string to = ref(result, x);
        t.line("REAL " + result + dims(x) + ";");
        loops(x);
        t.line(to + " = " + identity(op) + ";");
        loops({true, true});
        t.line("if (CHANNEL_OK(i)) " + to + " = " + combined(op, to, term) + ";");
        for (int apart : {4, 8, 16}) {
            loops(x);
            t.line(to + " = " + combined(op, to, "__shfl_xor_sync(~0u, " + to + ", " + num(apart) + ")") + ";");
        }
        t.line("if (MEETING > 1) {");
        t.line("REAL* const parts = exchange + exchange_turn * RUN_PIXELS * 4;");
        t.line("if (lane < 4) {");
        loops(x);
        t.line("parts[(e / 2 * 8 + lane * 2 + e % 2) * 4 + warp] = " + to + ";");
        t.line("}");
        t.line("barrier_named(6 + warpgroup, 128);");
        loops(x);
        t.line("{");
        t.line(
            "const tf_vector<REAL, MEETING> all = *(const tf_vector<REAL, MEETING>*)(parts + (e / 2 * 8 + lane % 4 * 2 "
            "+ e % 2) * 4 + warp / MEETING * MEETING);");
        t.line(to + " = all.lane[0];");
        t.unrolled("for (int k = 1; k < MEETING; k++) " + to + " = " + combined(op, to, "all.lane[k]") + ";");
        t.line("}");
        t.line("exchange_turn ^= 1;");
        t.line("}");
    }

private:
    const BoxShape& box_;
};

class TmaProgram {
public:
    TmaProgram(const Epilogue& epilogue, const BoxShape& box, const Schedule& s)
        : epilogue_(epilogue), box_(box), s_(s), chain_(epilogue, t, box_) {}

    std::string text() {
        constants();
        t.line(
            "// The chain on accumulators; results leave in boxes. Row r of a warp's 16 belongs to lane / 4 = r % 8; a "
            "lane has the columns 8j + 2(lane % 4) + {0, 1}.");
        t.line("template <int WG> struct Fragments {");
        t.line("const REAL* table;");
        t.line("const Operands& operands;");
        t.line("unsigned boxes;                   // where they are laid down");
        t.line("REAL* exchange;                   // of reductions over channels");
        t.line("int warpgroup, lane, warp, slot, exchange_turn;");
        if (box_.places) t.line("const unsigned* places;            // of two pixels each in a box");
        if (added()) added_fields(t);
        t.line("template <int N> static __device__ __forceinline__ void load_rows(REAL (&r)[N], const REAL* from) {");
        t.unrolled("for (int i = 0; i < N; i++) r[i] = from[SEGMENT > 8 ? i * 8 : 0];");
        t.line("}");
        t.line(
            "__device__ __forceinline__ Fragments(unsigned char* shared, const Sizes&, const Operands& given, int "
            "warpgroup, int t) : table((const REAL*)(shared + TABLES_AT)), operands(given), "
            "boxes(shared_address(shared + CHUNKS_AT + warpgroup * CHUNK_BYTES)), exchange((REAL*)(shared + CHUNKS_AT "
            "+ warpgroup * CHUNK_BYTES + EXCHANGE_AT)), warpgroup(warpgroup), lane(t % 32), warp(t / 32), slot(0), "
            "exchange_turn(0)" +
            std::string(
                box_.places
                    ? ", places((const unsigned*)(shared + CHUNKS_AT + warpgroup * CHUNK_BYTES + PLACES_IN_BOX_AT))"
                    : "") +
            (added() ? ", waits(shared_address(shared + CHUNKS_AT + warpgroup * CHUNK_BYTES + WAITS_AT)), turn(0)"
                     : "") +
            (box_.places || added() ? " {" : " {}"));
        if (box_.places) {
            t.line("unsigned short* const to = (unsigned short*)places;");
            t.line(
                "for (int p = t; p < RUN_PIXELS; p += 128) to[p] = row_of_pixel(p) < 0 ? 0xffff : "
                "vector_at(row_of_pixel(p), 0);   // a barrier follows before they are read");
        }
        if (added()) added_begin(t);
        if (box_.places || added()) t.line("}");
        place();
        if (added()) added_asked(t, s_.blocks);
        tile();
        t.line("__device__ __forceinline__ void finish() { if (lane == 0 && warp == 0) boxes_stored(); }");
        t.line("};");
        return t.str();
    }

private:
    void constants() {
        t.line("constexpr bool FRAGMENTS = true, FOLDED = false, BIASED = false;");
        t.constants({{"SEGMENT", s_.segment}, {"SEGMENTS", box_.segments}, {"BOX_CHANNELS", box_.channels}});
        t.constants({{"BOX_PARTS", box_.parts}, {"BOX_ROW", box_.row_bytes}, {"BOX_BYTES", box_.bytes}});
        t.constants({{"BOX_SLOTS", box_.slots}, {"SLOT_BYTES", slot_bytes()}});
        const int64_t exchange_at = (box_.slots + box_.beside) * slot_bytes(), places_at = exchange_at + box_.exchange;
        t.constants({{"EXCHANGE_AT", exchange_at}});
        if (box_.places) t.constants({{"PLACES_IN_BOX_AT", places_at}});
        if (added()) {
            t.constants({{"ADDED", added()}, {"BOX_PIXELS", box_.pixels}, {"WAITS_AT", places_at + box_.places}});
            t.add(std::string(added_code()));
        }
        t.constants({{"MEETING", std::max(1, s_.segment / 16)}});  // warps that hold a pixel's channels
        std::vector<int64_t> maps;
        for (size_t part = 0; part < s_.phase_table.size(); ++part)
            for (int block = 0; block < s_.blocks; ++block)
                for (int segment = 0; segment < box_.segments; ++segment) {
                    const ChunkPhase p = s_.phase_of(part, block, segment);
                    maps.push_back(p.d < 0 ? -1 : (p.d * s_.period[2] + p.h) * s_.period[3] + p.w);
                }
        t.line("__constant__ int segment_maps[] = {" + listed(maps) +
               "};   // [variant][warpgroup][accumulator][segment]: the map of its phase");
    }
    int64_t added() const { return static_cast<int64_t>(epilogue_.added().size()); }
    int64_t slot_bytes() const { return static_cast<int64_t>(box_.segments) * box_.parts * box_.bytes; }

    void place() {
        t.line("// The row of a pixel in a box, −1 where it lies between the rows of the image.");
        t.line("static __device__ __forceinline__ int row_of_pixel(int pixel) {");
        const std::string pitch = s_.run_pitch_name();
        t.line("const int w = pixel % " + pitch + ", line = pixel / " + pitch +
               ", h = line % EXTENT_H, d = line / EXTENT_H % EXTENT_D, n = line / (EXTENT_H * EXTENT_D);");
        t.line(
            "return w < RUN_W && h < RUN_H && d < RUN_D && n < RUN_N ? ((n * RUN_D + d) * RUN_H + h) * RUN_W + w : "
            "-1;");
        t.line("}");
        t.line("// Where 16 bytes of channels of a box's row lie: spread over the banks as the copy expects it.");
        t.line("static __device__ __forceinline__ unsigned vector_at(int row, int vector) {");
        t.line("return row * BOX_ROW + ((" +
               std::string(box_.swizzle() ? "vector ^ (row * BOX_ROW >> 7 & (BOX_ROW / 16 - 1))" : "vector") +
               ") << 4);");
        t.line("}");
    }

    void tile() {
        const Operand& store = epilogue_.stores()[0];
        const std::string type(storage_name(store.dtype));
        t.line("__device__ __forceinline__ void tile(REAL (&acc)[BLOCKS][ACCUMULATORS], const Place& at, int) {");
        t.line("constexpr int BATCH = 2, VECTOR = RUN_PIXELS / 4;   // a lane's rows and columns");
        t.line(
            "const int group = 0, image = at.u[0], block = at.fixed % MGROUPS * (BLOCKS_PER_TILE * 64) + "
            "(SPLIT_CHANNELS ? warpgroup * 64 : 0), first_channel = block + (warp * 16 + lane / 4) % SEGMENT;");
        t.line("(void)group, (void)image, (void)first_channel;");
        t.line("#define CHANNEL(i) (first_channel + (SEGMENT > 8 ? (i) * 8 : 0))");
        t.line("#define CHANNEL_OK(i) (CHANNEL(i) < COUT)");
        t.unrolled("for (int b = 0; b < BLOCKS; b++) {");
        if (added()) {
            t.line("const unsigned to = boxes + b * SLOT_BYTES;");
            t.line("barrier_wait(waits + b * 8, turn);   // what comes has come");
        }
        chain_.on_accumulators("b");
        chain_.operand(store.value);
        const Chain::Kind kind = chain_.kind(store.value);
        auto value = [&](const std::string& i, const std::string& e) {
            return chain_.name(store.value) + (kind.c ? "[" + i + "]" : "") + (kind.x ? "[" + e + "]" : "");
        };
        if (!added()) {
            t.line("const unsigned to = boxes + slot * SLOT_BYTES;");
            t.line("if (lane == 0 && warp == 0) boxes_read<BOX_SLOTS - 1>();   // what lay here is on its way");
            t.line("barrier_named(6 + warpgroup, 128);");
        }
        if (bytes(store.dtype) == 2)
            lay_pairs(type, value);
        else
            lay_words(value);
        t.line("fence_proxy();");
        t.line("barrier_named(6 + warpgroup, 128);");
        t.line("if (lane == 0 && warp == 0) {");
        t.line("for (int box = 0; box < SEGMENTS * BOX_PARTS; box++) {");
        t.line(
            "const int map = segment_maps[((at.variant * 2 + warpgroup) * BLOCKS + b) * SEGMENTS + box / BOX_PARTS];");
        t.line(
            "if (map >= 0) store_box(operands.out[map], to + box * BOX_BYTES, block + box % BOX_PARTS * BOX_CHANNELS, "
            "at.u[3] + warpgroup * SECOND_W, at.u[2] + warpgroup * SECOND_H, at.u[1] + warpgroup * SECOND_D, at.u[0] + "
            "warpgroup * SECOND_N);");
        t.line("}");
        t.line("boxes_sent();");
        t.line("}");
        if (!added()) t.line("if (BOX_SLOTS > 1) slot ^= 1;");
        t.line("}");
        if (added()) t.line("turn ^= 1;");
        t.line("#undef CHANNEL");
        t.line("#undef CHANNEL_OK");
        t.line("}");
    }

    // Four matrices of 8 channels by 8 pixels, transposed: a lane names the place of 8 channels of a pixel.
    template <class Value>
    void lay_pairs(const std::string& type, const Value& value) {
        t.line("const int half = lane / 8 % 2, first_row = warp * 16 + half * 8;");
        t.line("const unsigned segment = to + first_row / SEGMENT * BOX_BYTES, nowhere = to + SLOT_BYTES - 16;");
        t.unrolled("for (int k = 0; k < VECTOR; k += 4) {");
        t.line(
            "const int pixel = k * 4 + lane / 16 * 8 + lane % 8, row = pixel < RUN_PIXELS ? row_of_pixel(pixel) : -1;");
        t.line(
            "const unsigned here = row >= 0 && first_row / SEGMENT < SEGMENTS && first_row % SEGMENT < BOX_CHANNELS ? "
            "segment + vector_at(row, first_row % SEGMENT / 8) : nowhere;");
        t.line("const int f = k + 2 < VECTOR ? k + 2 : k;");
        auto pair = [&](const std::string& i, const std::string& e) {
            return "pack_pair<" + type + ">(" + value(i, e) + ", " + value(i, e + " + 1") + ")";
        };
        t.line("store_matrices(here, " + pair("0", "k") + ", " + pair("1", "k") + ", " + pair("0", "f") + ", " +
               pair("1", "f") + ");");
        t.line("}");
    }

    // A value at a time: eight channels of four pixels lie in the 32 banks. Where pixels lie stands in a table, two at
    // a time, and is read ahead of the values.
    template <class Value>
    void lay_words(const Value& value) {
        t.line("unsigned both = places[lane % 4];");
        t.unrolled("for (int k = 0; k < VECTOR; k += 2) {");
        t.line("const unsigned next = places[k + 2 < VECTOR ? k * 2 + 4 + lane % 4 : 0];");
        t.unrolled("for (int j = 0; j < 2; j++) {");
        t.line("const unsigned row = j ? both >> 16 : both & 0xffff;");
        t.unrolled("for (int i = 0; i < 2; i++) {");
        t.line("const int m = warp * 16 + i * 8 + lane / 4, channel = m % SEGMENT, within = channel % BOX_CHANNELS;");
        t.line("const unsigned box = to + (m / SEGMENT * BOX_PARTS + channel / BOX_CHANNELS) * BOX_BYTES;");
        t.line(
            "if (row != 0xffff && m / SEGMENT < SEGMENTS && channel < BOX_PARTS * BOX_CHANNELS) shared_put(box + "
            "(row " +
            std::string(box_.swizzle() ? "^" : "+") + " within * 4), __float_as_uint(" + value("i", "k + j") + "));");
        t.line("}");
        t.line("}");
        t.line("both = next;");
        t.line("}");
    }

    const Epilogue& epilogue_;
    const BoxShape box_;
    const Schedule& s_;
    Lines t;
    BoxChain chain_;
};

}  // namespace

int64_t box_maps(const Problem& problem) {
    return problem.axes[1].period() * problem.axes[2].period() * problem.axes[3].period();
}

static BoxShape stored_boxes(const Epilogue& epilogue, const Schedule& s, const Config& config) {
    Needs needs;
    needs.exit = Exit::tma, needs.element_bytes = bytes(epilogue.stores()[0].dtype),
    needs.added = static_cast<int>(epilogue.added().size()), needs.all_channels = epilogue.program().channel_reductions;
    return box_shape(epilogue.problem(), needs, config, s);
}

// A tensor's phases, each by a map of its own.
static void add_maps(ArgumentList& list, const Operand& whole, const Problem& problem, const BoxShape& box,
                     const Config& config) {
    const int64_t element = bytes(whole.dtype);
    std::array<int64_t, 4> period{}, stride{};
    for (size_t a = 0; a < 4; ++a) period[a] = problem.axes[a].period(), stride[a] = whole.strides[a == 0 ? 0 : a + 1];
    for (int64_t phase = 0; phase < box_maps(problem); ++phase) {
        const std::array<int64_t, 4> residue{0, phase / (period[2] * period[3]), phase / period[3] % period[2],
                                             phase % period[3]};
        TmaTensor tensor;
        tensor.dtype = whole.dtype, tensor.swizzle = box.swizzle();
        tensor.extent[0] = static_cast<int32_t>(problem.cout), tensor.box[0] = box.channels;
        int64_t offset = whole.offset;
        for (size_t a = 0; a < 4; ++a) {  // n, d, h, w are axes 4, 3, 2, 1 of the box
            const size_t to = 4 - a;
            tensor.extent[to] = static_cast<int32_t>((problem.axes[a].out - residue[a] + period[a] - 1) / period[a]),
            tensor.box[to] = config.run[a];
            tensor.stride[to - 1] = problem.axes[a].out > 1 ? stride[a] * period[a] * element : 16;
            offset += residue[a] * stride[a];
        }
        list.push_back(Argument::of_boxes(whole.root, offset * element, tensor));
    }
}

void add_box_arguments(ArgumentList& list, const Epilogue& epilogue, const Schedule& schedule, const Config& config) {
    const BoxShape box = stored_boxes(epilogue, schedule, config);
    add_maps(list, epilogue.stores()[0], epilogue.problem(), box, config);
    for (const size_t read : epilogue.added()) add_maps(list, epilogue.reads()[read], epilogue.problem(), box, config);
}

std::string tma_program(const Epilogue& epilogue, const Schedule& schedule, const Config& config) {
    return TmaProgram(epilogue, stored_boxes(epilogue, schedule, config), schedule).text();
}

}  // namespace transfuse::cuda
