#include "cuda/assemble.h"

#include <algorithm>
#include <map>
#include <set>

#include "cuda/correlate.h"
#include "cuda/dense/dense.h"
#include "cuda/loop.h"
#include "cuda/moments.h"
#include "cuda/pull.h"
#include "plan/pass_name.h"
#include "transfuse/error.h"

namespace transfuse::cuda {

namespace {

class Assembler {
public:
    Assembler(const Plan& plan, const CompileOptions& options, const Target& target, bool aligned,
              const DenseConfigs& configs)
        : plan_(plan),
          graph_(plan.graph),
          options_(options),
          target_(target),
          aligned_(aligned),
          configs_(configs),
          parameters_(parameter_values(plan.graph)) {}

    Assembly run() {
        place_values();
        size_t p = prepare_beside_moments() ? 2 : 0;
        for (; p < plan_.passes.size(); ++p) {
            pass_ = p;
            const Program program = generate(plan_.passes[p]);
            bind(program, plan_.passes[p]);
        }
        copy_repeated_outputs();
        assembly_.workspace_bytes += scratch_bytes_;
        return std::move(assembly_);
    }

private:
    // Where the plan begins by preparing weights and reading moments, the reading goes first and the weights are
    // prepared while it ends: only the tail needs both.
    bool prepare_beside_moments() {
        if (plan_.passes.size() < 2 || plan_.passes[0].kind != PassKind::prepare ||
            plan_.passes[1].kind != PassKind::moments)
            return false;
        pass_ = 1;
        Program moments = generate(plan_.passes[1]);
        size_t reading = 0;
        while (reading < moments.launches.size() &&
               moments.launches[reading].source->entry.rfind("tf_moments_tail", 0) != 0)
            ++reading;
        std::set<ValueId> prepared;
        for (const Store& store : plan_.passes[0].stores) prepared.insert(store.target);
        bool apart = reading > 0 && reading < moments.launches.size();
        for (size_t i = 0; i < reading; ++i)
            for (const Argument& argument : moments.launches[i].arguments)
                if (argument.kind == Argument::Kind::value && prepared.contains(argument.value)) apart = false;
        pass_ = 0;
        beside_ = apart;
        Program prepare = generate(plan_.passes[0]);
        beside_ = false;
        if (!apart || prepare.scratch_bytes > 0 || prepare.launches.size() != 1) {
            if (apart) prepare = generate(plan_.passes[0]);
            bind(prepare, plan_.passes[0]);
            pass_ = 1;
            bind(moments, plan_.passes[1]);
            return true;
        }
        prepare.launches[0].early = true;
        Program tail = moments;
        moments.launches.resize(reading);
        tail.launches.erase(tail.launches.begin(), tail.launches.begin() + static_cast<std::ptrdiff_t>(reading));
        pass_ = 1;
        bind(moments, plan_.passes[1]);
        pass_ = 0;
        bind(prepare, plan_.passes[0]);
        pass_ = 1;
        bind(tail, plan_.passes[1]);
        return true;
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
        place_buffers();
    }

    Sizes output_strides(size_t position) const {
        return options_.output_strides.empty() ? contiguous_strides(graph_[graph_.outputs()[position]].type.shape)
                                               : options_.output_strides[position];
    }

    struct Life {
        size_t first, last;
        bool kept;
    };

    void place_buffers() {
        std::map<ValueId, Life> lives;
        auto touch = [&](ValueId v, size_t pass, bool prepares) {
            if (addresses_[static_cast<size_t>(v)]) return;
            auto [at, fresh] = lives.try_emplace(v, Life{pass, pass, prepares});
            at->second.last = pass;
        };
        for (size_t p = 0; p < plan_.passes.size(); ++p) {
            const Pass& pass = plan_.passes[p];
            for (ValueId read : pass.reads)
                if (const ValueId root = view_root(plan_, read); !is_literal(graph_, root)) touch(root, p, false);
            for (const Store& store : pass.stores) touch(store.target, p, pass.kind == PassKind::prepare);
        }
        struct Region {
            int64_t begin, end;
            Life life;
        };
        std::vector<Region> taken;
        int64_t end = 0, kept_end = 0;
        for (const auto& [value, life] : lives) {
            const Type& type = graph_[value].type;
            const int64_t size = (std::max<int64_t>(numel(type.shape), 1) * bytes(type.dtype) + 255) / 256 * 256;
            assembly_.strides[static_cast<size_t>(value)] = contiguous_strides(type.shape);
            if (options_.freeze && life.kept) {
                addresses_[static_cast<size_t>(value)] = Address{Address::Kind::kept, 0, kept_end};
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
            addresses_[static_cast<size_t>(value)] = Address{Address::Kind::workspace, 0, at};
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

    Program generate(const Pass& pass) {
        const auto config = configs_.find(pass_);
        const Surroundings surroundings{plan_,
                                        pass,
                                        assembly_.strides,
                                        options_.precision,
                                        target_,
                                        aligned_,
                                        config == configs_.end() ? "" : config->second};
        PullRequest request{graph_, parameters_, places_of(pass), {}, target_, 0, std::string(pass_name(pass.kind)),
                            false};
        // Copies of whole leaves read what they write under another name.
        for (const Store& store : pass.stores)
            if (pass.steps.empty() && store.value == store.target)
                if (const ValueId root = view_root(plan_, store.value); !is_literal(graph_, root))
                    request.places.emplace(root, place_of(root));
        Program program;
        std::set<ValueId> done;  // stored by the main kernel already
        std::string why_not;
        if (pass.kind == PassKind::dense && !target_.general_only && surroundings.config != no_dense_config) {
            if (auto dense = generate_dense(surroundings, &why_not)) {
                program = std::move(dense->program);
                for (const GridValue& value : dense->grid) {
                    Place place;
                    place.base = Argument::of_scratch(value.scratch_offset);
                    place.storage = DType::f64;
                    place.strides = contiguous_strides(graph_[value.value].type.shape);
                    place.aligned = value.scratch_offset % 16 == 0;
                    place.read_only = false;
                    request.places.insert_or_assign(value.value, place);
                }
                for (const TileStep& step : pass.steps)
                    if (step.scope == Scope::tile || step.scope == Scope::prologue) done.insert(step.value);
                note("tensor-core kernel; " + program.note);
                assembly_.configs[pass_] = dense->config;
            } else if (auto product = generate_product(surroundings)) {
                program = std::move(product->program);
                note("tensor-core kernel for the product alone (" + why_not + "), then the general one; " +
                     program.note);
                assembly_.configs[pass_] = product->config;
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
            if (auto correlate = generate_correlate(surroundings, request.places, &why_not)) {
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
        request.beside = beside_;
        // Sums over space, what follows them and what prepares weights: small, and often differences of what is nearly equal.
        request.exact = !first || pass.kind == PassKind::moments || std::all_of(pass.steps.begin(), pass.steps.end(),
                                              [](const TileStep& step) { return step.scope == Scope::tail; });
        request.scratch_begin = static_cast<int64_t>(program.scratch_bytes);
        request.early = !first;
        if (!first) request.name += "_tail";
        for (const Store& store : pass.stores)
            if (!done.contains(store.value)) request.sinks.push_back(sink_of(store));
        if (!request.sinks.empty()) {
            Program rest = pull(request);
            for (Launch& launch : rest.launches) {
                if (pass.kind == PassKind::prepare) launch.parameters_only = true;
                program.launches.push_back(std::move(launch));
            }
            program.scratch_bytes = std::max(program.scratch_bytes, rest.scratch_bytes);
        }
        return program;
    }

    // A dense pass that tensor cores do not take whole: the product on them, into memory; its tile program is for the
    // general kernel.
    std::optional<DenseProgram> generate_product(const Surroundings& whole) {
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
            const Type& type = graph_[anchor].type;
            const auto begin = static_cast<int64_t>((assembly_.workspace_bytes + 255) / 256 * 256);
            address = Address{Address::Kind::workspace, 0, begin};
            assembly_.strides[static_cast<size_t>(anchor)] = contiguous_strides(type.shape);
            assembly_.workspace_bytes = static_cast<size_t>(begin + numel(type.shape) * bytes(type.dtype));
        }
        const Surroundings apart{plan_, product, assembly_.strides, whole.precision, target_, aligned_, whole.config};
        auto dense = generate_dense(apart);
        if (!dense && fresh) {
            assembly_.workspace_bytes = static_cast<size_t>(address->offset);
            address.reset();
            assembly_.strides[static_cast<size_t>(anchor)].clear();
        }
        return dense;
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
    void bind(const Program& program, const Pass& pass) {
        const size_t scratch_begin = target_.stated() ? scratch_of(pass_) : 0;
        const bool keeps = options_.freeze && program.kept_bytes > 0;
        const auto kept_begin = static_cast<int64_t>((assembly_.kept_bytes + 255) / 256 * 256);
        if (keeps) assembly_.kept_bytes = static_cast<size_t>(kept_begin) + program.kept_bytes;
        for (const Launch& launch : program.launches) {
            BoundLaunch bound{launch, {}, pass_};
            if (bound.launch.parameters_only && !(options_.freeze && (keeps || pass.kind == PassKind::prepare)))
                bound.launch.parameters_only = false;
            for (const Argument& argument : launch.arguments) {
                switch (argument.kind) {
                    case Argument::Kind::bytes:
                        break;
                    case Argument::Kind::output:
                        bound.addresses.push_back({Address::Kind::output, argument.value, argument.offset});
                        break;
                    case Argument::Kind::boxes:
                    case Argument::Kind::value: {
                        auto& address = addresses_[static_cast<size_t>(argument.value)];
                        require(address.has_value(), "CUDA: a kernel reads value %", argument.value,
                                ", which is not in memory");
                        bound.addresses.push_back(
                            {address->kind, address->position, address->offset + argument.offset});
                        break;
                    }
                    case Argument::Kind::scratch:
                        if (keeps && argument.offset < static_cast<int64_t>(program.kept_bytes))
                            bound.addresses.push_back({Address::Kind::kept, 0, kept_begin + argument.offset});
                        else
                            bound.addresses.push_back(
                                {Address::Kind::workspace, 0,
                                 static_cast<int64_t>(assembly_.workspace_bytes + scratch_begin) + argument.offset});
                        break;
                }
            }
            assembly_.launches.push_back(std::move(bound));
        }
        scratch_bytes_ = std::max(scratch_bytes_, scratch_begin + (program.scratch_bytes + 255) / 256 * 256);
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
        pass_ = plan_.passes.size() - 1;
        bind(pull(request), plan_.passes.back());
    }

    const Plan& plan_;
    const Graph& graph_;
    const CompileOptions& options_;
    const Target target_;
    const bool aligned_;
    const DenseConfigs& configs_;
    const std::vector<bool> parameters_;
    std::vector<std::optional<Address>> addresses_;
    Assembly assembly_;
    size_t scratch_bytes_ = 0, pass_ = 0;
    std::map<size_t, size_t> scratch_begins_;  // of each pass
    bool beside_ = false;
};

}  // namespace

Assembly assemble(const Plan& plan, const CompileOptions& options, const Target& target, bool aligned,
                  const DenseConfigs& configs) {
    return Assembler(plan, options, target, aligned, configs).run();
}

std::vector<std::string> configs_of(const Plan& plan, size_t pass, const Assembly& assembly,
                                    const CompileOptions& options, const Target& target, bool aligned, size_t most) {
    if (plan.passes[pass].kind != PassKind::dense || target.general_only) return {};
    return dense_configs({plan, plan.passes[pass], assembly.strides, options.precision, target, aligned, ""}, most);
}

}  // namespace transfuse::cuda
