#include "cuda/dense/dense.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "algebra/lattice/integer.h"
#include "cuda/dense/choose/cut.h"
#include "cuda/dense/exits/accumulators/fragments.h"
#include "cuda/dense/exits/accumulators/tma_stores.h"
#include "cuda/dense/exits/combine.h"
#include "cuda/dense/read/keys.h"
#include "cuda/dense/read/parts.h"
#include "cuda/dense/read/tile_program.h"
#include "cuda/dense/schedule/figures.h"
#include "cuda/dense/schedule/serpentine.h"
#include "cuda/dense/schedule/specialization.h"
#include "cuda/dense/to_channels_last.h"
#include "cuda/dense/write/generate.h"
#include "cuda/dense/write/pack.h"
#include "graph/layout.h"
#include "transfuse/error.h"

namespace transfuse::cuda {

namespace {

constexpr std::string_view words_between = "; ";  // of a configuration and a specialization

Words launch_note(const std::string& config) { return "dense tiles: " + config; }
Words program_note(Family family, const std::string& config) {
    return (family == Family::mma ? "mma.sync, " : "wgmma, ") + config;
}

struct KernelSizes {
    int in[4], out[4], tiles[4], total;
};

// The input as the load role asks for it: boxes of a piece's channels and the patch's pixels, or of one vector of
// channels each.
TmaTensor tma_input(const TileProgram& program, const Problem& problem, const Config& config, const Schedule& s) {
    TmaTensor tensor;
    const bool operand = problem.load == LoadMode::operand || problem.load == LoadMode::vector_boxes;
    tensor.dtype = program.input.dtype;
    if (problem.load ==
        LoadMode::unaligned_rows) {  // rows of every so many channels; the image's planes one behind the other
        const auto& stride = program.input.strides;
        const int64_t lanes = problem.lanes(), element = bytes(program.input.dtype);
        tensor.extent = {static_cast<int32_t>(unaligned_rows_extent(problem, program.input)),
                         static_cast<int32_t>(problem.groups * problem.cin / lanes),
                         static_cast<int32_t>(problem.axes[0].in), 1, 1};
        tensor.box = {s.row_box(problem), config.piece, 1, 1, 1};
        tensor.stride = {lanes * stride[1] * element, problem.axes[0].in > 1 ? stride[0] * element : 16, 16, 16};
        return tensor;
    }
    tensor.rounds_to_tf32 = problem.load == LoadMode::operand && problem.lanes() == 4;
    // Axes n, d, h, w of the lattice are axes 3, 2, 1, 0 of the box, or one further where the channels come first.
    const size_t channels = operand ? 0 : 4;
    auto set = [&](size_t at, int64_t extent, int64_t box, int64_t stride) {
        tensor.extent[at] = static_cast<int32_t>(extent), tensor.box[at] = static_cast<int32_t>(box);
        if (at > 0) tensor.stride[at - 1] = extent > 1 ? stride * bytes(program.input.dtype) : 16;
    };
    set(channels, problem.groups * problem.cin, operand ? problem.lanes() : config.piece * problem.lanes(),
        program.input.strides[1]);
    for (size_t a = 0; a < 4; ++a)
        set(3 - a + (operand ? 1 : 0), problem.axes[a].in, s.extent[a] * s.advance[a],
            program.input.strides[a == 0 ? 0 : a + 1]);
    if (config.flat)
        set(0, problem.axes[2].in * problem.axes[3].in, s.extent[2] * problem.axes[3].in, 1), set(1, 1, 1, 0);
    return tensor;
}

Specialization specialization_of(const Request& request) {
    const Problem& problem = request.problem;
    return {problem.load, request.program.vector, problem.arithmetic, problem.any_size};
}

// A kernel's text, and the job that packs its weights.
struct DenseText {
    std::shared_ptr<const Source> source;
    std::shared_ptr<const ExtraJob> pack;
};

DenseText text_of(const Surroundings& around, const Request& request, const Cut& cut) {
    const TileProgram& program = request.program;
    const auto pack = [&] {
        return std::make_shared<const ExtraJob>(pack_job(request.problem, cut.config, cut.schedule, program.weight,
                                                         program.spatial, Argument::of_packed(around.number)));
    };
    const auto write = [&] {
        return dense_source(std::string(dense_entry), request.problem, cut.config, *cut.schedule, request.epilogue);
    };
    const auto source = [](std::string text) {
        return std::make_shared<const Source>(Source{std::string(dense_entry), std::move(text), {}});
    };
    if (!around.text_cache) return {source(write()), pack()};
    TextCache& cache = *around.text_cache;
    const auto schedule =
        cut.found ? cut.schedule
                  : cache.schedules.get(schedule_key(request.problem, request.needs, cut.config, around.target),
                                        [&] { return cut.schedule; });
    if (!schedule) return {source(write()), pack()};  // asked for by its words, this one was refused
    const auto one = [&] {
        std::string text = write();
        return cache.sources.get(text, [&] { return source(text); });
    };
    return {cache.texts.get(text_key(*schedule, request.epilogue), one),
            cache.packs.get(pack_key(*schedule, program), pack)};
}

// A pass as one kernel, before its text is written.
struct Cutting {
    std::unique_ptr<Request> request;
    Cut cut;
    TextOptions options;
    KernelSizes sizes{};
    int grid = 0;
};

// How many blocks, each with how many tiles. False, with a sentence, where they are too many.
bool count_tiles(const Surroundings& around, Cutting& cutting, std::string* why_not) {
    const Problem& problem = cutting.request->problem;
    const Config& config = cutting.cut.config;
    const Schedule& s = *cutting.cut.schedule;
    KernelSizes& sizes = cutting.sizes;
    int64_t total = static_cast<int64_t>(s.fixed) * s.variants;
    for (size_t a = 0; a < 4; ++a) {
        sizes.in[a] = static_cast<int>(problem.axes[a].in), sizes.out[a] = static_cast<int>(problem.axes[a].out);
        sizes.tiles[a] = static_cast<int>(s.tiles_along(a, problem.axes[a]));
        total *= sizes.tiles[a];
    }
    if (total >= (int64_t(1) << 31) - 1024) {
        if (why_not) *why_not = "too many tiles";
        return false;
    }
    sizes.total = static_cast<int>(total);
    // With resident weights a CTA keeps to one block of output channels.
    const int parts = s.fixed * s.variants;
    int grid = around.target.multiprocessors;
    if ((config.resident && s.fixed > 1) || serpentine(problem, config, s)) {
        if (parts > grid) {
            if (why_not) *why_not = "more groups than multiprocessors";
            return false;
        }
        grid = grid / parts * parts;
    }
    cutting.grid = static_cast<int>(std::min<int64_t>(grid, total));
    return true;
}

// Where partial sums lie in scratch memory, from its beginning, and what is kept for others behind them.
struct Scratch {
    PartialRows rows;
    std::vector<int64_t> kept_at;
    int64_t bytes = 0;
};

Scratch scratch_of(const Surroundings& around, const Cutting& cutting) {
    const auto& [request, cut, options, sizes, grid] = cutting;
    const Epilogue& epilogue = request->epilogue;
    const bool store_role = request->needs.has_store_role();
    const bool per_tile = store_role ? epilogue.per_tile() : fragment_rows_per_tile(epilogue, *cut.schedule);
    Scratch scratch;
    scratch.rows = {epilogue.per_tile() ? sizes.in[0] : 1,
                    store_role ? static_cast<int64_t>(per_tile ? sizes.total : grid) * cut.config.store_groups
                               : static_cast<int64_t>(per_tile ? sizes.total / cut.schedule->fixed : grid) *
                                     fragment_writers(cut.config)};
    const auto take = [&](int64_t elements) { scratch.bytes += round_up(elements * epilogue.real_bytes(), 256); };
    take(static_cast<int64_t>(epilogue.stats()) * scratch.rows.rows * epilogue.channels());
    for (const Operand& o : epilogue.stores()) {
        if (o.root >= 0) continue;
        scratch.kept_at.push_back(scratch.bytes);
        take(options.parts ? parts_stored(request->problem) : numel(around.plan.graph[o.value].type.shape));
    }
    return scratch;
}

Arguments arguments_of(const Surroundings& around, const Cutting& cutting, const Scratch& scratch) {
    const Request& request = *cutting.request;
    const Epilogue& epilogue = request.epilogue;
    const Config& config = cutting.cut.config;
    const Schedule& s = *cutting.cut.schedule;
    const Operand& input = request.program.input;
    const int64_t input_at = input.offset * bytes(input.dtype);
    ArgumentList arguments;
    arguments.reserve(8 + epilogue.reads().size() + epilogue.stores().size());
    arguments.push_back(Argument::of_value(input.root, input_at));
    arguments.push_back(Argument::of_packed(around.number));
    arguments.push_back(Argument::of(cutting.sizes));
    arguments.push_back(Argument::of(input.strides));
    epilogue.add_arguments(arguments, 0, scratch.kept_at);
    if (request.needs.exit == Exit::tma) add_box_arguments(arguments, epilogue, s, config);
    if (request.problem.boxed())
        arguments.push_back(
            Argument::of_boxes(input.root, input_at, tma_input(request.program, request.problem, config, s)));
    return Arguments(std::move(arguments));
}

// Where the rest of the pass finds reductions: as partial sums, or the value that its tail reduces.
void place_reductions(const Epilogue& epilogue, const Scratch& scratch, Places& places) {
    for (const Partial& p : epilogue.partials()) {
        if (p.reduction.whole) {
            places.emplace(p.reduction.value, partial_place(epilogue, p, 0, scratch.rows));
            continue;
        }
        size_t nth = 0;
        for (int k = 0; k < p.store; ++k) nth += epilogue.stores()[static_cast<size_t>(k)].root < 0;
        places.insert_or_assign(p.reduction.of, kept_place(epilogue, p.reduction.of, scratch.kept_at[nth]));
    }
}

// What is said of the kernel: its configuration and specialization, which stand for its text, and notes.
void describe(const Cutting& cutting, FamilyProgram& result) {
    const Family family = cutting.request->problem.family;
    const Specialization specialization = specialization_of(*cutting.request);
    const KernelSpec* const spec = cutting.options.spec.get();
    result.config = spec ? spec->config_words : Words(to_string(cutting.cut.config));
    result.words = spec && specialization == spec->specialization
                       ? spec->words
                       : Words(result.config.str() + std::string(words_between) + to_string(specialization));
    result.program.note = spec ? spec->notes[static_cast<size_t>(family)].program : program_note(family, result.config);
    if (spec) result.pass_note = spec->notes[static_cast<size_t>(family)].pass;
}

FamilyProgram write(const Surroundings& around, const Cutting& cutting) {
    const Request& request = *cutting.request;
    const Config& config = cutting.cut.config;
    const Schedule& s = *cutting.cut.schedule;
    const Scratch scratch = scratch_of(around, cutting);
    FamilyProgram result;
    DenseText text = text_of(around, request, cutting.cut);
    result.pack = std::move(text.pack), result.packed_bytes = packed_bytes(config, s);
    describe(cutting, result);
    Launch main;
    main.source = std::move(text.source);
    main.grid = {static_cast<uint32_t>(cutting.grid), 1, 1},
    main.block = {static_cast<uint32_t>(config.threads()), 1, 1};
    main.shared_bytes = static_cast<uint32_t>(s.shared_bytes);
    main.arguments = arguments_of(around, cutting, scratch);
    main.early = true;
    main.note = cutting.options.spec ? cutting.options.spec->launch_note : launch_note(result.config);
    result.program.launches.push_back(std::move(main));
    result.program.scratch_bytes = static_cast<size_t>(scratch.bytes);
    if (cutting.options.parts)
        result.places.emplace(around.pass.anchor, place_of_parts(around, request.problem, scratch.kept_at[0]));
    place_reductions(request.epilogue, scratch, result.places);
    return result;
}

// around: lives until the offer is written.
std::optional<Offer> offer(const Surroundings& around, std::unique_ptr<Request> request, const TextOptions& options,
                           std::string* why_not) {
    if (!request) return std::nullopt;
    auto cut = chosen(*request, around, options);
    if (!cut) {
        if (why_not) *why_not = "no tile fits registers and shared memory";
        return std::nullopt;
    }
    const auto cutting = std::make_shared<Cutting>(Cutting{std::move(request), std::move(*cut), options});
    if (!count_tiles(around, *cutting, why_not)) return std::nullopt;
    const Problem& problem = cutting->request->problem;
    Offer offer;
    offer.seconds = estimate(problem, cutting->request->needs, cutting->cut.config, *cutting->cut.schedule,
                             around.target.multiprocessors);
    if (options.parts) {
        offer.seconds += seconds_to_add_up(around, problem);
        offer.parts = name_of_parts(options.parts);
    }
    const double waves = static_cast<double>(cutting->sizes.total) / around.target.multiprocessors;
    offer.busy = waves / std::ceil(waves);
    offer.write = [&around, cutting] { return write(around, *cutting); };
    return offer;
}

// Of the kernels of one family.
std::optional<Offer> offer(const Surroundings& around, Family family, std::string* why_not,
                           const TextOptions& options = {}) {
    return offer(around, read_request(around, family, why_not, options), options, why_not);
}

// The families of a device, first choice first.
Few<Family, 2> families(const Surroundings& around) {
    if (around.target.has_wgmma() && around.config != portable_config) return {Family::wgmma, Family::mma};
    if (around.target.arch >= 80) return {Family::mma};
    return {};
}

}  // namespace

std::optional<Offer> offer_dense(const Surroundings& around, std::string* why_not) {
    if (why_not) *why_not = "tensor-core kernels need sm_80";
    for (Family family : families(around))
        if (auto one = offer(around, family, why_not)) return one;
    return std::nullopt;
}

std::optional<Offer> offer_dense_in_parts(const Surroundings& around, double than) {
    for (Family family : families(around)) {
        const auto read = read_pass(around, family, nullptr);
        if (!read) continue;
        std::optional<Offer> best;
        for (const SumParts& parts : parts_worth_trying(read->problem, around, than))
            if (auto one = offer(around, family, nullptr, {.parts = parts});
                one && (!best || one->seconds < best->seconds))
                best = std::move(one);
        if (best) return best->seconds < figures::parts_clearly_faster * than ? std::move(best) : std::nullopt;
    }
    return std::nullopt;
}

std::optional<Offer> offer_dense_channels_last(const Surroundings& around, double than) {
    const auto input = input_to_channels_last(around);
    if (!input) return std::nullopt;
    const Type& type = around.plan.graph[*input].type;
    const auto strides = std::make_shared<Strides>(around.strides);
    strides->set(static_cast<size_t>(*input), channels_last_strides(type.shape));
    const auto channels_last = std::make_shared<const Surroundings>(
        Surroundings{around.plan, around.pass, *strides, around.precision, around.target, around.aligned, around.config,
                     around.number, around.text_cache, around.parameters});
    auto copied = offer(*channels_last, Family::wgmma, nullptr);
    if (!copied) return std::nullopt;
    copied->seconds += to_channels_last_seconds(around, type);
    if (copied->seconds >= figures::copied_clearly * figures::in_elements * than) return std::nullopt;
    copied->write = [strides, channels_last, input = *input, &type, write = std::move(copied->write)] {
        FamilyProgram dense = write();
        Program& program = dense.program;
        const int64_t at = round_up(static_cast<int64_t>(program.scratch_bytes), 256);
        for (Launch& launch : program.launches) read_channels_last(launch, input, at);
        program.launches.insert(program.launches.begin(), to_channels_last(type, input, at));
        program.scratch_bytes = static_cast<size_t>(at + channels_last_bytes(type));
        program.note = program.note.str() + ", its input laid channels last before";
        return dense;
    };
    return copied;
}

std::shared_ptr<const KernelSpec> kernel_spec_named(const std::string& words) {
    const size_t between = words.find(words_between);
    if (between == std::string::npos) return nullptr;
    std::string config_words = words.substr(0, between);
    const auto specialization = specialization_named(words.substr(between + words_between.size()));
    const auto config = config_named(config_words);
    if (!specialization || !config) return nullptr;
    KernelSpec spec{words, config_words, launch_note(config_words), {}, *config, *specialization};
    for (const Family family : {Family::wgmma, Family::mma}) {
        KernelSpec::Notes& notes = spec.notes[static_cast<size_t>(family)];
        notes.program = program_note(family, config_words);
        notes.pass = std::string(by_tensor_cores) + notes.program.str();
    }
    return std::make_shared<const KernelSpec>(std::move(spec));
}

struct KnownOffers::Passes {
    std::array<std::optional<std::optional<ReadPass>>, 2> by_family;
};

KnownOffers::KnownOffers(const Surroundings& surroundings)
    : around_(surroundings), passes_(std::make_unique<Passes>()) {}
KnownOffers::~KnownOffers() = default;

std::optional<Offer> KnownOffers::as(const std::shared_ptr<const KernelSpec>& spec) {
    if (!spec) return std::nullopt;
    const TextOptions options{.spec = spec};
    for (Family family : families(around_)) {
        auto& read = passes_->by_family[static_cast<size_t>(family)];
        if (!read) read = read_pass(around_, family, nullptr);
        if (!*read) continue;
        auto request = request_of(**read, around_, options);
        if (!request || specialization_of(*request) != spec->specialization) continue;
        if (auto one = offer(around_, std::move(request), options, nullptr)) return one;
    }
    return std::nullopt;
}

std::optional<Offer> offer_dense_for_many(const Surroundings& around, int larger, bool any_size) {
    for (Family family : families(around))
        if (auto one = offer(around, family, nullptr, {larger, any_size})) return one;
    return std::nullopt;
}

std::vector<std::string> dense_configs(const Surroundings& around, size_t most) {
    std::vector<std::string> list;
    for (Family family : families(around)) {
        const auto request = read_request(around, family, nullptr);
        if (!request) continue;
        // The heuristic's own first, then the others.
        for (size_t count : {size_t{1}, most})
            for (const Choice& choice : choices_of(*request, around.target, count))
                if (std::string text = to_string(choice.config);
                    std::find(list.begin(), list.end(), text) == list.end())
                    list.push_back(std::move(text));
        if (!list.empty()) break;
    }
    return list;
}

}  // namespace transfuse::cuda
