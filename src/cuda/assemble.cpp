#include "cuda/assemble.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "cuda/cells.h"
#include "cuda/correlate.h"
#include "cuda/covariance.h"
#include "cuda/dense/dense.h"
#include "cuda/grouped.h"
#include "cuda/grouped_gradient.h"
#include "cuda/loop.h"
#include "cuda/moments.h"
#include "cuda/pull.h"
#include "cuda/side_by_side.h"
#include "cuda/thin.h"
#include "plan/pass_name.h"
#include "transfuse/error.h"

namespace transfuse::cuda {

namespace {

class Assembler {
public:
    Assembler(const Plan& plan, const CompileOptions& options, const Target& target, bool aligned,
              const DenseConfigs& configs, KnownKernels* known)
        : plan_(plan),
          graph_(plan.graph),
          options_(options),
          target_(for_sizes_of(plan, target, known)),
          aligned_(aligned),
          configs_(configs),
          known_(known),
          parameters_(parameter_values(plan.graph)) {}

    Assembly run() {
        place_values();
        // Weights are packed by the launch that prepares them, so every other pass is generated first.
        const size_t begin = !plan_.passes.empty() && plan_.passes[0].kind == PassKind::prepare ? 1 : 0;
        std::vector<Program> programs(plan_.passes.size());
        generate_tiles_ahead(begin);
        for (pass_ = begin; pass_ < plan_.passes.size(); ++pass_) programs[pass_] = generate(plan_.passes[pass_]);
        bind_in_order(programs, begin);
        copy_repeated_outputs();
        assembly_.workspace_bytes += scratch_bytes_;
        return std::move(assembly_);
    }

private:
    // Where the plan begins by reading moments, the reading goes first and weights are prepared while it ends: only
    // what comes after needs both. The reading waits for what was launched before it and only then lets the preparation
    // start, which waits for nothing: weights may just have been written, and its memory may be what the call before
    // still reads.
    void bind_in_order(const std::vector<Program>& programs, size_t begin) {
        const bool moments = begin < programs.size() && plan_.passes[begin].kind == PassKind::moments;
        const size_t reading = moments ? launches_before_tail(programs[begin], begin) : 0;
        Program prepare = preparation(begin, values_met(programs), reading > 0);
        std::set<ValueId> met = values_met(programs);
        met.merge(values_met({&prepare, 1}));
        place_buffers(met);
        place_packed();
        const auto prepare_scratch = static_cast<int64_t>(assembly_.workspace_bytes);
        if (reading > 0)  // beside the reading: in memory of its own
            assembly_.workspace_bytes += (prepare.scratch_bytes + 255) / 256 * 256;
        const size_t prepares = begin ? 0 : packs_.empty() ? 0 : packs_[0].pass;
        if (reading > 0) {
            Program first = programs[begin], rest = first;
            const auto cut = static_cast<std::ptrdiff_t>(reading);
            first.launches.resize(reading);
            rest.launches.erase(rest.launches.begin(), rest.launches.begin() + cut);
            for (Launch& launch : prepare.launches) launch.early = true;
            bind(first, begin), bind(prepare, prepares, prepare_scratch), bind(rest, begin);
        } else {
            bind(prepare, prepares);
        }
        for (size_t p = begin + (reading > 0); p < programs.size(); ++p) bind(programs[p], p);
    }

    // The launches of a moments pass that need nothing the prepare pass stores.
    size_t launches_before_tail(const Program& moments, size_t begin) const {
        std::set<ValueId> prepared;
        if (begin > 0)
            for (const Store& store : plan_.passes[0].stores) prepared.insert(store.target);
        auto needs = [&](const Argument& argument) {
            return argument.kind == Argument::Kind::value && prepared.contains(argument.value);
        };
        size_t count = 0;
        for (const Launch& launch : moments.launches) {
            if (launch.source->entry.starts_with("tf_moments_tail")) break;
            if (std::any_of(launch.arguments.begin(), launch.arguments.end(), needs)) break;
            ++count;
        }
        return count;
    }

    // Whose memory launches read or write.
    static std::set<ValueId> values_met(std::span<const Program> programs) {
        std::set<ValueId> values;
        for (const Program& program : programs)
            for (const Launch& launch : program.launches)
                for (const Argument& argument : launch.arguments)
                    if (argument.kind == Argument::Kind::value || argument.kind == Argument::Kind::boxes)
                        values.insert(argument.value);
        return values;
    }

    // The prepare pass, less what nobody reads (weights that are only packed), and the packing of all weights that
    // depend on parameters alone.
    Program preparation(size_t begin, const std::set<ValueId>& read, bool beside) {
        PullRequest request{graph_, parameters_, {}, {}, target_, 0, "prepare", false, true, beside};
        request.target.any_size = known_ != nullptr;  // nothing but a constant can depend on sizes
        bool writes_output = false;                   // at every call then
        if (begin > 0) {
            request.places = places_of(plan_.passes[0]);
            const auto& outputs = graph_.outputs();
            for (const Store& store : plan_.passes[0].stores) {
                const bool output = std::find(outputs.begin(), outputs.end(), store.target) != outputs.end();
                writes_output |= output;
                if (output || read.contains(store.target)) request.sinks.push_back(sink_of(store));
            }
        }
        for (const Pack& pack : packs_) {
            request.extras.push_back(pack.job);
            place_leaves_below(pack.job.root, request.places);
        }
        if (request.sinks.empty() && request.extras.empty()) return {};
        Program program = pull(request);
        for (Launch& launch : program.launches) launch.parameters_only = !writes_output;
        return program;
    }

    void place_leaves_below(ValueId root, Places& places) const {
        std::vector<ValueId> open = {root};
        std::set<ValueId> seen;
        while (!open.empty()) {
            const ValueId v = open.back();
            open.pop_back();
            if (!seen.insert(v).second) continue;
            if (is_leaf(graph_[v].op) && addresses_[static_cast<size_t>(v)]) places.emplace(v, place_of(v));
            for (ValueId arg : graph_[v].args) open.push_back(arg);
        }
    }

    // Packed weights have memory of their own: they are written before other passes run.
    void place_packed() {
        for (auto& [pass, packed] : packed_) {
            const auto size = static_cast<int64_t>((packed.bytes + 255) / 256 * 256);
            size_t& end = packed.kept ? assembly_.kept_bytes : assembly_.workspace_bytes;
            packed.at = {packed.kept ? Address::Kind::kept : Address::Kind::workspace, 0, static_cast<int64_t>(end)};
            end += static_cast<size_t>(size);
        }
    }

    // Strides and addresses of everything that lies in memory; buffers share workspace where their lives do not meet.
    void place_values() {
        const auto size = static_cast<size_t>(graph_.size());
        assembly_.strides.assign(size, {});
        addresses_.assign(size, std::nullopt);
        const auto& outputs = graph_.outputs();
        require(options_.leaf_strides.empty() || options_.leaf_strides.size() == graph_.leaves().size(),
                "compile_cuda: leaf_strides has ", options_.leaf_strides.size(), " entries for ",
                graph_.leaves().size(), " leaves");
        require(options_.output_strides.empty() || options_.output_strides.size() == outputs.size(),
                "compile_cuda: output_strides has ", options_.output_strides.size(), " entries for ", outputs.size(),
                " outputs");
        for (size_t j = outputs.size(); j-- > 0;) {  // of a value that stands twice, the first place counts
            const auto v = static_cast<size_t>(outputs[j]);
            addresses_[v] = Address{Address::Kind::output, static_cast<int>(j), 0};
            assembly_.strides[v] = output_strides(j);
        }
        for (size_t i = 0; i < graph_.leaves().size(); ++i) {
            const auto v = static_cast<size_t>(graph_.leaves()[i]);
            addresses_[v] = Address{Address::Kind::leaf, static_cast<int>(i), 0};
            assembly_.strides[v] = options_.leaf_strides.empty() ? contiguous_strides(graph_.nodes()[v].type.shape)
                                                                 : options_.leaf_strides[i];
        }
        find_buffers();
    }

    Sizes output_strides(size_t position) const {
        return options_.output_strides.empty() ? contiguous_strides(graph_[graph_.outputs()[position]].type.shape)
                                               : options_.output_strides[position];
    }

    struct Life {
        size_t first, last;
        bool prepared;
    };

    // The values that need buffers; where these lie is decided when it is known which are met.
    void find_buffers() {
        auto touch = [&](ValueId v, size_t pass, bool prepares) {
            if (addresses_[static_cast<size_t>(v)] && !lives_.contains(v)) return;
            auto [at, fresh] = lives_.try_emplace(v, Life{pass, pass, prepares});
            at->second.last = pass;
            const bool kept = options_.freeze && at->second.prepared;
            addresses_[static_cast<size_t>(v)] = Address{kept ? Address::Kind::kept : Address::Kind::workspace, 0, 0};
            assembly_.strides[static_cast<size_t>(v)] = contiguous_strides(graph_[v].type.shape);
        };
        for (size_t p = 0; p < plan_.passes.size(); ++p) {
            const Pass& pass = plan_.passes[p];
            for (ValueId read : pass.reads)
                if (const ValueId root = view_root(plan_, read); !is_literal(graph_, root)) touch(root, p, false);
            for (const Store& store : pass.stores) touch(store.target, p, pass.kind == PassKind::prepare);
        }
    }

    void place_buffers(const std::set<ValueId>& met) {
        struct Region {
            int64_t begin, end;
            Life life;
        };
        std::vector<Region> taken;
        int64_t end = 0, kept_end = 0;
        for (const auto& [value, life] : lives_) {
            if (!met.contains(value)) continue;
            const Type& type = graph_[value].type;
            const int64_t size = (std::max<int64_t>(numel(type.shape), 1) * bytes(type.dtype) + 255) / 256 * 256;
            Address& address = *addresses_[static_cast<size_t>(value)];
            if (address.kind == Address::Kind::kept) {
                address.offset = kept_end;
                kept_end += size;
                continue;
            }
            // First fit among the regions alive at the same time.
            std::vector<std::pair<int64_t, int64_t>> busy;
            for (const Region& region : taken)
                if (target_.stated() || (region.life.first <= life.last && life.first <= region.life.last))
                    busy.emplace_back(region.begin, region.end);
            std::sort(busy.begin(), busy.end());
            int64_t at = 0;
            for (const auto& [begin, stop] : busy) {
                if (at + size <= begin) break;
                at = std::max(at, stop);
            }
            taken.push_back({at, at + size, life});
            address.offset = at;
            end = std::max(end, at + size);
        }
        assembly_.workspace_bytes = static_cast<size_t>(end);
        assembly_.kept_bytes = static_cast<size_t>(kept_end);
    }

    Place place_of(ValueId v) const {
        const auto at = static_cast<size_t>(v);
        require(addresses_[at].has_value(), "CUDA: value %", v, " (", name(graph_[v].op), ") is not in memory");
        Place place;
        place.base = Argument::of_value(v);
        place.storage = graph_[v].type.dtype;
        place.strides = assembly_.strides[at];
        // What an earlier launch wrote may only be read after waiting for it: no read-only loads, which could move up.
        place.read_only = addresses_[at]->kind == Address::Kind::leaf;
        place.aligned =
            aligned_ || addresses_[at]->kind == Address::Kind::workspace || addresses_[at]->kind == Address::Kind::kept;
        return place;
    }

    // Where a store goes. A reshape as target is pulled through: the sink is then the target itself.
    Sink sink_of(const Store& store) const {
        const ValueId target = store.target;
        Place place = place_of(target);
        if (addresses_[static_cast<size_t>(target)]->kind == Address::Kind::leaf) {  // an output that is a leaf
            const auto& outputs = graph_.outputs();
            const auto j = static_cast<size_t>(std::find(outputs.begin(), outputs.end(), target) - outputs.begin());
            place.base = Argument::of_output(static_cast<int>(j));
            place.strides = output_strides(j);
        }
        if (store.value == target || graph_[target].op == Op::reshape) return {target, place};
        if (!store.start.empty()) {
            int64_t offset = 0;
            for (size_t a = 0; a < store.start.size(); ++a) offset += store.start[a] * place.strides[a];
            place.base.offset += offset * bytes(place.storage);
            if (place.base.offset % 16 != 0) place.aligned = false;
        }
        return {store.value, place};
    }

    Places places_of(const Pass& pass) const {
        Places places;
        for (ValueId read : pass.reads) {
            const ValueId root = view_root(plan_, read);
            if (!is_literal(graph_, root) && graph_[root].op != Op::constant)
                places.emplace(root, place_of(root));
            else if (graph_[root].op == Op::constant && addresses_[static_cast<size_t>(root)])
                places.emplace(root, place_of(root));
        }
        for (const TileStep& step : pass.steps)
            if (!is_leaf(graph_[step.value].op)) places.erase(step.value);
        return places;
    }

    // What a pass stores of its tiles. A reshape that only leaves out axes of extent 1 is the value itself.
    std::vector<Sink> tile_sinks(const Pass& pass) const {
        std::vector<Sink> sinks;
        for (const Store& store : pass.stores) {
            const bool tile = std::any_of(pass.steps.begin(), pass.steps.end(), [&](const TileStep& step) {
                return step.value == store.value && step.scope == Scope::tile;
            });
            if (!tile) continue;
            sinks.push_back(sink_of(store));
            Sink& sink = sinks.back();
            if (sink.value == store.value) continue;
            const Sizes &from = graph_[store.value].type.shape, &to = graph_[sink.value].type.shape;
            Sizes strides(from.size(), 0);
            size_t at = 0;
            for (size_t a = 0; a < from.size(); ++a) {
                if (from[a] == 1) continue;
                while (at < to.size() && to[at] == 1) ++at;
                if (at == to.size() || to[at] != from[a]) break;
                strides[a] = sink.place.strides[at++];
            }
            if (std::count(strides.begin(), strides.end(), 0) != std::count(from.begin(), from.end(), 1)) continue;
            sink.value = store.value, sink.place.strides = strides;
        }
        return sinks;
    }

    Surroundings surroundings_of(size_t number) const {
        const auto config = configs_.find(number);
        return {plan_,
                plan_.passes[number],
                assembly_.strides,
                options_.precision,
                target_,
                aligned_,
                config == configs_.end() ? "" : config->second,
                static_cast<int>(number)};
    }

    struct Tiles {
        std::optional<DenseProgram> dense;
        bool apart = false;          // it leaves the products of each tap
        std::optional<Taken> taken;  // of the kernels that are known
        std::string why_not;
    };

    // Tiles of a pass depend on nothing that is decided for another: where there are many, and choosing a tile and
    // writing its text takes nearly all the time, several threads generate them. (Decisions are recorded in order.)
    void generate_tiles_ahead(size_t begin) {
        constexpr size_t few = 2;  // a thread takes as long to start as a pass
        std::vector<size_t> passes;
        for (size_t p = begin; p < plan_.passes.size(); ++p)
            if (takes_tiles(surroundings_of(p))) passes.push_back(p);
        if (target_.stated() || passes.size() < 2 * few) return;
        std::vector<std::optional<Tiles>> made(passes.size());
        side_by_side(
            passes.size(), [&](size_t k) { made[k] = tiles_ahead(passes[k]); }, few);
        for (size_t k = 0; k < passes.size(); ++k)
            if (made[k]) tiles_.emplace(passes[k], std::move(*made[k]));
    }

    // Nothing where another family takes the pass; or where something is wrong, which whoever comes to it will meet
    // again.
    std::optional<Tiles> tiles_ahead(size_t number) const try {
        const Surroundings surroundings = surroundings_of(number);
        const Places places = places_of(surroundings.pass);
        std::vector<Sink> sinks;
        for (const Store& store : surroundings.pass.stores) sinks.push_back(sink_of(store));
        if (generate_thin(surroundings, places, sinks)) return std::nullopt;
        sinks = tile_sinks(surroundings.pass);
        if (generate_cells(surroundings, places, sinks) || generate_grouped(surroundings, places, sinks))
            return std::nullopt;
        return generate_tiles(surroundings);
    } catch (const std::exception&) {
        return std::nullopt;
    }

    bool takes_tiles(const Surroundings& surroundings) const {
        return surroundings.pass.kind == PassKind::dense && !target_.general_only &&
               surroundings.config != no_dense_config;
    }

    Program generate(const Pass& pass) {
        const Surroundings surroundings = surroundings_of(pass_);
        PullRequest request{graph_, parameters_, places_of(pass), {}, target_, 0, std::string(pass_name(pass.kind)),
                            false};
        // Copies of whole leaves read what they write under another name.
        for (const Store& store : pass.stores)
            if (pass.steps.empty() && store.value == store.target)
                if (const ValueId root = view_root(plan_, store.value); !is_literal(graph_, root))
                    request.places.emplace(root, place_of(root));
        Program program;
        std::set<ValueId> done;  // stored by the main kernel already
        bool apart = false;      // the main kernel leaves the products of each tap
        std::string why_not;
        if (takes_tiles(surroundings)) {
            std::vector<Sink> sinks;
            for (const Store& store : pass.stores) sinks.push_back(sink_of(store));
            if (auto thin = generate_thin(surroundings, request.places, sinks)) {
                note("ordinary arithmetic; " + thin->note);
                return std::move(*thin);
            }
            auto ordinary = generate_cells(surroundings, request.places, tile_sinks(pass));
            if (!ordinary) ordinary = generate_grouped(surroundings, request.places, tile_sinks(pass));
            if (ordinary) {
                program = std::move(ordinary->program);
                for (auto& [value, place] : ordinary->grid) request.places.insert_or_assign(value, place);
                for (const TileStep& step : pass.steps)
                    if (step.scope == Scope::tile || step.scope == Scope::prologue) done.insert(step.value);
                note("ordinary arithmetic; " + program.note);
            } else if (auto dense = take_tiles(surroundings, apart, why_not)) {
                program = with_pack(*dense);
                for (auto& [value, place] : dense->places) request.places.insert_or_assign(value, place);
                for (const TileStep& step : pass.steps)
                    if (!apart && (step.scope == Scope::tile || step.scope == Scope::prologue)) done.insert(step.value);
                note((apart ? "tensor-core kernel for the products of each tap; " : "tensor-core kernel; ") +
                     program.note);
                assembly_.configs[pass_] = dense->config;
            } else if (auto product = generate_product(surroundings)) {
                program = std::move(*product);
                note((assembly_.configs.contains(pass_) ? "tensor-core kernel" : "ordinary arithmetic") +
                     std::string(" for the product alone (") + why_not + "), then the general kernel; " + program.note);
                request.places.insert_or_assign(pass.anchor, place_of(pass.anchor));
                done.insert(pass.anchor);
            } else {
                note("general kernel: " + why_not);
            }
        } else if (pass.kind == PassKind::moments) {
            std::vector<std::pair<ValueId, Place>> stores;
            for (const Store& store : pass.stores)
                if (store.value == store.target) stores.emplace_back(store.value, sink_of(store).place);
            if (auto moments = generate_moments(surroundings, request.places, stores, &why_not)) {
                program = std::move(moments->program);
                done.insert(moments->stored.begin(), moments->stored.end());
                for (auto& [value, place] : moments->grid) request.places.insert_or_assign(value, place);
                note(program.note);
            } else {
                note("general kernel: " + why_not);
            }
        }
        if (pass.kind == PassKind::correlate) {
            auto correlate = generate_grouped_gradient(surroundings, request.places);
            if (!correlate) correlate = generate_correlate(surroundings, request.places, &why_not);
            if (!correlate) correlate = generate_covariance(surroundings, request.places);
            if (correlate) {
                program = std::move(correlate->program);
                for (auto& [value, place] : correlate->grid) request.places.insert_or_assign(value, place);
                note(program.note);
            } else {
                note("general kernel: " + why_not);
            }
        }
        if (pass.kind == PassKind::pointwise) {
            std::vector<Place> stores;
            for (const Store& store : pass.stores) stores.push_back(sink_of(store).place);
            if (auto loop = generate_loop(surroundings, request.places, stores, &why_not)) {
                note(loop->note);
                program.launches.push_back(std::move(*loop));
                for (const Store& store : pass.stores) done.insert(store.value);
            }
        }
        const bool first = program.launches.empty();
        // Sums over space, what follows them and what prepares weights: small, and often differences of what is nearly
        // equal.
        request.exact = (!first && !apart) || pass.kind == PassKind::moments ||
                        std::all_of(pass.steps.begin(), pass.steps.end(),
                                    [](const TileStep& step) { return step.scope == Scope::tail; });
        request.scratch_begin = static_cast<int64_t>(program.scratch_bytes);
        request.early = !first;
        if (!first) request.name += "_tail";
        for (const Store& store : pass.stores)
            if (!done.contains(store.value)) request.sinks.push_back(sink_of(store));
        if (!request.sinks.empty()) {
            Program rest = pull(request);
            for (Launch& launch : rest.launches) program.launches.push_back(std::move(launch));
            program.scratch_bytes = std::max(program.scratch_bytes, rest.scratch_bytes);
        }
        return program;
    }

    // The products of each tap, where adding them up afterwards is estimated faster: for the first size of a program,
    // by the heuristic's configuration.
    Tiles generate_tiles(const Surroundings& surroundings, bool whole = true) const {
        Tiles tiles;
        if (known_) {
            tiles.dense = generate_dense_among(surroundings, *known_, tiles.taken.emplace(), &tiles.why_not);
            if (!tiles.dense) tiles.taken.reset();
        } else {
            tiles.dense = generate_dense(surroundings, &tiles.why_not);
        }
        if (!tiles.dense || !whole || target_.stated() || target_.any_size || !surroundings.config.empty())
            return tiles;
        if (auto products = generate_dense_apart(surroundings, tiles.dense->seconds))
            tiles.dense = std::move(products), tiles.apart = true, tiles.taken.reset();
        return tiles;
    }

    std::optional<DenseProgram> take_tiles(const Surroundings& surroundings, bool& apart, std::string& why_not) {
        const auto ahead = tiles_.find(pass_);
        Tiles tiles = ahead != tiles_.end() ? std::move(ahead->second) : generate_tiles(surroundings);
        if (tiles.taken) assembly_.taken.insert_or_assign(pass_, std::move(*tiles.taken));
        apart = tiles.apart, why_not = std::move(tiles.why_not);
        return std::move(tiles.dense);
    }

    // A dense pass that no family takes whole: the product alone, into memory; its tile program is for the general
    // kernel.
    std::optional<Program> generate_product(const Surroundings& whole) {
        constexpr double worthwhile = 1e6;  // flops
        const ValueId anchor = whole.pass.anchor;
        auto& address = addresses_[static_cast<size_t>(anchor)];
        if (target_.stated() || whole.pass.cost.flops < worthwhile) return std::nullopt;
        for (const Store& store : whole.pass.stores)
            if (store.value == anchor && store.target != anchor) return std::nullopt;
        Pass product = whole.pass;
        std::erase_if(product.steps,
                      [&](const TileStep& step) { return step.scope != Scope::prologue && step.value != anchor; });
        product.stores = {{anchor, anchor, {}}};
        const bool fresh = !address;
        if (fresh) {
            address = Address{Address::Kind::workspace, 0, 0};
            assembly_.strides[static_cast<size_t>(anchor)] = contiguous_strides(graph_[anchor].type.shape);
            lives_.emplace(anchor, Life{pass_, pass_, false});
        }
        const Surroundings apart{plan_,   product,  assembly_.strides, whole.precision,
                                 target_, aligned_, whole.config,      whole.number};
        if (auto grouped = generate_grouped(apart, places_of(product), {sink_of(product.stores[0])}))
            return std::move(grouped->program);
        if (Tiles tiles = generate_tiles(apart, false); tiles.dense) {
            if (tiles.taken) assembly_.taken.insert_or_assign(pass_, std::move(*tiles.taken));
            assembly_.configs[pass_] = tiles.dense->config;
            return with_pack(*tiles.dense);
        }
        if (fresh) {
            address.reset();
            assembly_.strides[static_cast<size_t>(anchor)].clear();
            lives_.erase(anchor);
        }
        return std::nullopt;
    }

    // Weights of parameters alone are packed beside all others; those an earlier pass made, right before they are used.
    Program with_pack(DenseProgram& dense) {
        const ValueId weight = dense.pack.root;
        const bool parameters = parameters_[static_cast<size_t>(weight)];
        packed_[pass_] = {dense.packed_bytes, options_.freeze && parameters, {}};
        if (parameters) {
            packs_.push_back({pass_, dense.pack});
            return std::move(dense.program);
        }
        PullRequest request{graph_, parameters_, {}, {}, target_, 0, "pack", true};
        const ValueId root = view_root(plan_, weight);
        if (!is_literal(graph_, root)) request.places.emplace(root, place_of(root));
        request.extras.push_back(dense.pack);
        Program program = pull(request);
        for (Launch& launch : dense.program.launches) program.launches.push_back(std::move(launch));
        program.scratch_bytes = dense.program.scratch_bytes, program.note = dense.program.note;
        return program;
    }

    size_t scratch_of(size_t pass) {
        auto [at, fresh] = scratch_begins_.try_emplace(pass, scratch_bytes_);
        return at->second;
    }

    void note(const std::string& text) {
        assembly_.notes.resize(plan_.passes.size());
        assembly_.notes[pass_] = text;
    }

    // Scratch lies behind the buffers; passes follow each other on one stream, so they share it. (Which of them is the
    // largest depends on sizes: where formulas are wanted, each has its own.)
    void bind(const Program& program, size_t pass, std::optional<int64_t> scratch = {}) {
        const size_t scratch_begin = target_.stated() ? scratch_of(pass) : 0;
        const int64_t scratch_at = scratch.value_or(static_cast<int64_t>(assembly_.workspace_bytes + scratch_begin));
        for (const Launch& launch : program.launches) {
            BoundLaunch bound{launch, {}, pass};
            if (!options_.freeze) bound.launch.parameters_only = false;
            for (const Argument& argument : launch.arguments)
                if (argument.kind != Argument::Kind::bytes) bound.addresses.push_back(address_of(argument, scratch_at));
            assembly_.launches.push_back(std::move(bound));
        }
        if (scratch) return;
        scratch_bytes_ = std::max(scratch_bytes_, scratch_begin + (program.scratch_bytes + 255) / 256 * 256);
    }

    Address address_of(const Argument& argument, int64_t scratch_at) const {
        Address address{Address::Kind::workspace, 0, scratch_at};
        if (argument.kind == Argument::Kind::output) {
            address = {Address::Kind::output, argument.value, 0};
        } else if (argument.kind == Argument::Kind::packed) {
            address = packed_.at(static_cast<size_t>(argument.value)).at;
        } else if (argument.kind != Argument::Kind::scratch) {
            const auto& placed = addresses_[static_cast<size_t>(argument.value)];
            require(placed.has_value(), "CUDA: a kernel reads value %", argument.value, ", which is not in memory");
            address = *placed;
        }
        address.offset += argument.offset;
        return address;
    }

    void copy_repeated_outputs() {
        const auto& outputs = graph_.outputs();
        PullRequest request{graph_, parameters_, {}, {}, target_, 0, "copy", false};
        for (size_t j = 0; j < outputs.size(); ++j) {
            if (std::find(outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(j), outputs[j]) ==
                outputs.begin() + static_cast<std::ptrdiff_t>(j))
                continue;
            Place from = place_of(outputs[j]), to = from;
            to.base = Argument::of_output(static_cast<int>(j));
            to.strides = output_strides(j);
            request.places.emplace(outputs[j], from);
            request.sinks.push_back({outputs[j], to});
        }
        if (request.sinks.empty() || plan_.passes.empty()) return;
        bind(pull(request), plan_.passes.size() - 1);
    }

    // The best texts for a program's first size; those that serve any size for all others.
    static Target for_sizes_of(const Plan& plan, Target target, KnownKernels* known) {
        target.any_size = target.any_size || (known && !known->first_met(plan.graph));
        return target;
    }

    const Plan& plan_;
    const Graph& graph_;
    const CompileOptions& options_;
    const Target target_;
    const bool aligned_;
    const DenseConfigs& configs_;
    KnownKernels* const known_;
    const std::vector<bool> parameters_;
    std::vector<std::optional<Address>> addresses_;
    std::map<ValueId, Life> lives_;  // of the buffers
    Assembly assembly_;
    size_t scratch_bytes_ = 0, pass_ = 0;
    std::map<size_t, size_t> scratch_begins_;  // of each pass
    struct Packed {
        int64_t bytes;
        bool kept;  // by a frozen executable
        Address at;
    };
    std::map<size_t, Packed> packed_;  // by number of the pass
    struct Pack {
        size_t pass;
        ExtraJob job;
    };
    std::map<size_t, Tiles> tiles_;  // made ahead, by number of the pass
    std::vector<Pack> packs_;        // of weights that depend on parameters alone
};

}  // namespace

Assembly assemble(const Plan& plan, const CompileOptions& options, const Target& target, bool aligned,
                  const DenseConfigs& configs, KnownKernels* known) {
    return Assembler(plan, options, target, aligned, configs, known).run();
}

std::vector<std::string> configs_of(const Plan& plan, size_t pass, const Assembly& assembly,
                                    const CompileOptions& options, const Target& target, bool aligned, size_t most) {
    if (plan.passes[pass].kind != PassKind::dense || target.general_only) return {};
    return dense_configs({plan, plan.passes[pass], assembly.strides, options.precision, target, aligned, ""}, most);
}

}  // namespace transfuse::cuda
