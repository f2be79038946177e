#include "cuda/dense/exits/accumulators/tma_stores.h"

#include <algorithm>
#include <array>

#include "cuda/dense/exits/accumulators/added_tensors.h"
#include "cuda/dense/exits/accumulators/fragment_chain.h"
#include "cuda/dense/exits/accumulators/fragments.h"
#include "cuda/kernel/expression.h"
#include "cuda/kernel/hooks.h"

namespace transfuse::cuda {

namespace {

constexpr std::string_view tma_stores =
#include "cuda/device/exits/tma_stores.cuh"
    ;

class BoxChain : public FragmentChain {
public:
    using FragmentChain::FragmentChain;

protected:
    void load_elements(const std::string& name, size_t read, Kind kind) override {
        const auto& added = epilogue_.leaving().added;
        const auto at = std::find(added.begin(), added.end(), read);
        if (at == added.end()) return FragmentChain::load_elements(name, read, kind);
        t.line("load_added(" + name + ", to + " + num(at - added.begin()) + " * BLOCKS * SLOT_BYTES);");
    }
    // A lane's rows, then other lanes' and warps'.
    void across(const std::string& result, Op op, const std::string& term) override {
        const Kind x{false, true};
        const std::string to = ref(result, x);
        t.line("REAL " + result + dims(x) + ";");
        loops(x);
        t.line(to + " = " + identity(op) + ";");
        loops({true, true});
        t.line("if (CHANNEL_OK(i)) " + to + " = " + combined(op, to, term) + ";");
        t.line("meet(" + result + ", [](REAL a, REAL b) { return " + combined(op, "a", "b") + "; });");
    }
};

// All that the text's constants say.
std::string constants(const Epilogue& epilogue, const BoxShape& box, const Schedule& s) {
    const auto added = static_cast<int64_t>(epilogue.leaving().added.size());
    const int64_t slot = static_cast<int64_t>(box.segments) * box.parts * box.bytes,
                  exchange_at = (box.slots + box.beside) * slot, places_at = exchange_at + box.exchange;
    Lines t;
    t.line("typedef " + std::string(storage_name(epilogue.stores()[0].dtype)) + " OUT;");
    t.constants({{"SEGMENT", s.segment}, {"SEGMENTS", box.segments}, {"BOX_CHANNELS", box.channels}});
    t.constants({{"BOX_PARTS", box.parts}, {"BOX_ROW", box.row_bytes}, {"BOX_BYTES", box.bytes}});
    t.constants({{"BOX_SLOTS", box.slots}, {"SLOT_BYTES", slot}, {"EXCHANGE_AT", exchange_at}});
    t.constants({{"SWIZZLED", box.swizzle() != 0}, {"MEETING", std::max(1, s.segment / 16)}});  // warps of a pixel
    t.line("constexpr int ROW_PITCH = " + std::string(s.run_pitch_name()) + ";");
    if (box.places) {
        t.line("#define HAS_PLACES");
        t.constants({{"PLACES_IN_BOX_AT", places_at}});
    }
    if (added) {
        t.line("#define HAS_ADDED");
        t.constants({{"ADDED", added}, {"BOX_PIXELS", box.pixels}, {"WAITS_AT", places_at + box.places}});
        t.add(std::string(added_code()));
    }
    std::vector<int64_t> maps;
    for (size_t part = 0; part < s.phase_table.size(); ++part)
        for (int block = 0; block < s.blocks; ++block)
            for (int segment = 0; segment < box.segments; ++segment) {
                const ChunkPhase p = s.phase_of(part, block, segment);
                maps.push_back(p.d < 0 ? -1 : (p.d * s.period[2] + p.h) * s.period[3] + p.w);
            }
    t.line("__constant__ int segment_maps[] = {" + listed(maps) +
           "};   // [variant][warpgroup][accumulator][segment]: the map of its phase");
    return t.str();
}

}  // namespace

int64_t box_maps(const Problem& problem) {
    return problem.axes[1].period() * problem.axes[2].period() * problem.axes[3].period();
}

static BoxShape stored_boxes(const Epilogue& epilogue, const Schedule& s, const Config& config) {
    Needs needs;
    needs.exit = Exit::tma, needs.element_bytes = bytes(epilogue.stores()[0].dtype),
    needs.added = static_cast<int>(epilogue.leaving().added.size()),
    needs.all_channels = epilogue.program().channel_reductions;
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
    for (const size_t read : epilogue.leaving().added)
        add_maps(list, epilogue.reads()[read], epilogue.problem(), box, config);
}

std::string tma_program(const Epilogue& epilogue, const Schedule& schedule, const Config& config) {
    Lines chain;
    BoxChain(epilogue, chain).results("b", epilogue.stores()[0].value);
    return constants(epilogue, stored_boxes(epilogue, schedule, config), schedule) +
           hooked(tma_stores, {{"chain", chain.str()}});
}

}  // namespace transfuse::cuda
