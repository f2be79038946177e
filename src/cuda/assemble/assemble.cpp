#include "cuda/assemble/assemble.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "algebra/lattice/integer.h"
#include "cuda/assemble/pass/pass_generator.h"
#include "cuda/assemble/products.h"
#include "cuda/assemble/sums_in_place.h"
#include "cuda/kernel/shares.h"
#include "cuda/runtime/side_by_side.h"
#include "transfuse/error.h"

namespace transfuse::cuda {

namespace {

size_t whole_lines(size_t bytes) { return static_cast<size_t>(round_up(static_cast<int64_t>(bytes), line_bytes)); }

// The best texts for a program's first size; those that serve any size for all others.
Target for_sizes_of(const Plan& plan, Target target, KnownKernels* known) {
    target.any_size = target.any_size || (known && !known->first_met(plan.graph));
    return target;
}

// Nothing of what is prepared but a constant can depend on sizes.
Target any_size_of(Target target, const KnownKernels* known) {
    target.any_size = known != nullptr;
    return target;
}

// Adds those whose memory launches read or write.
void add_met(const Program& program, std::vector<bool>& met) {
    for (const Launch& launch : program.launches)
        for (const Argument& argument : launch.arguments)
            if (argument.kind == Argument::Kind::value ||
                (argument.kind == Argument::Kind::boxes && argument.value != Argument::in_scratch))
                met[static_cast<size_t>(argument.value)] = true;
}

class Assembler {
public:
    Assembler(const Plan& plan, const Options& options, const Target& target, bool aligned, const DenseConfigs& configs,
              KnownKernels* known)
        : plan_(plan),
          graph_(plan.graph),
          options_(options),
          target_(for_sizes_of(plan, target, known)),
          preparing_(any_size_of(target_, known)),
          configs_(configs),
          parameters_(parameter_values(plan.graph)),
          placement_(plan, options, aligned, target_.has_wgmma() && !target_.any_size),
          context_{plan, options, target_, aligned, parameters_, placement_, known},
          first_(!plan.passes.empty() && plan.passes[0].kind == PassKind::prepare ? 1 : 0) {}

    Assembly run() {
        // Weights are packed by the launch that prepares them, so every other pass is generated first.
        std::vector<std::unique_ptr<PassGenerator>> passes;
        for (size_t p = first_; p < plan_.passes.size(); ++p)
            passes.push_back(std::make_unique<PassGenerator>(context_, p, config_of(p)));
        std::vector<PassProgram> made(passes.size());
        side_by_side_when_long(passes.size(), [&](size_t k) { passes[k]->ask(); });
        for (const auto& pass : passes) pass->settle();
        side_by_side_when_long(passes.size(), [&](size_t k) { made[k] = passes[k]->write(); });
        packed_.reserve(plan_.passes.size());
        std::vector<Program> programs(plan_.passes.size());
        for (size_t k = 0; k < made.size(); ++k) programs[first_ + k] = take(first_ + k, std::move(made[k]));
        bind_in_order(std::move(programs));
        copy_repeated_outputs();
        assembly_.workspace_bytes += scratch_bytes_;
        assembly_.strides = placement_.take_strides();
        return std::move(assembly_);
    }

private:
    struct Packed {
        size_t pass;
        PackedWeights weights;
        Address at;
        size_t group = 0;  // of those that are packed together
    };

    std::string config_of(size_t pass) const {
        const auto config = configs_.find(pass);
        return config == configs_.end() ? "" : config->second;
    }

    Program take(size_t pass, PassProgram made) {
        if (!made.note.empty()) {
            assembly_.notes.resize(plan_.passes.size());
            assembly_.notes[pass] = std::move(made.note);
        }
        if (made.config) assembly_.configs[pass] = std::move(*made.config);
        if (made.taken) assembly_.taken.emplace(pass, std::move(*made.taken));
        if (made.packed) packed_.push_back({pass, std::move(*made.packed), {}});
        return std::move(made.program);
    }

    // Where the plan begins by reading moments, the reading goes first and weights are prepared while it ends: only
    // what comes after needs both. The reading waits for what was launched before it and only then lets the preparation
    // start, which waits for nothing: weights may just have been written, and its memory may be what the call before
    // still reads.
    void bind_in_order(std::vector<Program> programs) {
        const bool moments = first_ < programs.size() && plan_.passes[first_].kind == PassKind::moments;
        const size_t reading = moments ? launches_before_tail(programs[first_]) : 0;
        std::vector<bool> met(static_cast<size_t>(graph_.size()));  // per value
        for (const Program& program : programs) add_met(program, met);
        group_packed();
        Program prepare = preparation(met, reading > 0);
        add_met(prepare, met);
        std::vector<Program> later(groups_.size());
        for (size_t g = 1; g < groups_.size(); ++g) {
            later[g] = preparation_of_group(g);
            add_met(later[g], met);
        }
        place_buffers(met);
        place_packed();
        assembly_.launches.reserve(programs.size() + 2);
        size_t group = 1;
        const auto bind_pass = [&](size_t p) {
            if (group < groups_.size() && groups_[group] == p) {
                bind(std::move(later[group]), p);
                ++group;
            }
            bind(std::move(programs[p]), p);
        };
        if (reading == 0) {
            bind(std::move(prepare), preparing_pass());
            for (size_t p = first_; p < programs.size(); ++p) bind_pass(p);
            return;
        }
        const auto beside = static_cast<int64_t>(assembly_.workspace_bytes);  // the preparation's scratch, its own
        assembly_.workspace_bytes += whole_lines(prepare.scratch_bytes);
        Program reads = programs[first_], rest = reads;
        reads.launches.resize(reading);
        rest.launches.erase(rest.launches.begin(), rest.launches.begin() + static_cast<std::ptrdiff_t>(reading));
        for (Launch& launch : prepare.launches) launch.early = true;
        bind(std::move(reads), first_);
        bind(std::move(prepare), preparing_pass(), beside);
        bind(std::move(rest), first_);
        for (size_t p = first_ + 1; p < programs.size(); ++p) bind_pass(p);
    }

    // Weights are packed by the first preparation, as many as may be at a time; the next ones right before the pass
    // that reads the first of them, in the same memory. (Launches follow each other on one stream.)
    void group_packed() {
        int64_t together = 0;
        for (Packed& packed : packed_) {
            if (!packed.weights.job) continue;
            const int64_t bytes = packed.weights.bytes;
            if (groups_.empty() || (!packed.weights.kept && together + bytes > options_.prepared_together)) {
                groups_.push_back(packed.pass);
                together = 0;
            }
            packed.group = groups_.size() - 1;
            together += bytes;
        }
    }

    std::vector<std::shared_ptr<const ExtraJob>> jobs_of(size_t group) const {
        std::vector<std::shared_ptr<const ExtraJob>> jobs;
        for (const Packed& packed : packed_)
            if (packed.weights.job && packed.group == group) jobs.push_back(packed.weights.job);
        return jobs;
    }

    // The launches of a moments pass that need nothing the prepare pass stores.
    size_t launches_before_tail(const Program& moments) const {
        std::set<ValueId> prepared;
        if (first_ > 0)
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

    // The prepare pass, less what nobody reads (weights that are only packed), and the packing of all weights that
    // depend on parameters alone.
    Program preparation(const std::vector<bool>& read, bool beside) {
        Preparation asked = asked_preparation(beside);
        std::vector<Store> stores;
        bool writes_output = false;  // at every call then
        if (first_ > 0)
            for (const Store& store : plan_.passes[0].stores) {
                const auto& outputs = graph_.outputs();
                const bool output = std::find(outputs.begin(), outputs.end(), store.target) != outputs.end();
                writes_output |= output;
                if (!output && !read[static_cast<size_t>(store.target)]) continue;
                stores.push_back(store);
                asked.stored.push_back(store.target);
            }
        asked.extras = jobs_of(0);
        if (stores.empty() && asked.extras.empty()) return {};
        return prepared(asked, stores, !writes_output);
    }

    Program preparation_of_group(size_t group) {
        Preparation asked = asked_preparation(false);
        asked.extras = jobs_of(group);
        return prepared(asked, {}, true);
    }

    Preparation asked_preparation(bool beside) const {
        return {plan_, parameters_, placement_.strides(), preparing_, context_.aligned, beside, {}, {}};
    }

    // alike: as far as parameters tell.
    Program prepared(const Preparation& asked, const std::vector<Store>& stores, bool alike) {
        std::shared_ptr<const Program> known = context_.known && alike ? context_.known->prepared(asked) : nullptr;
        if (!known) known = prepare(asked, stores, context_.known && alike);
        Program program = *known;
        for (Launch& launch : program.launches) launch.parameters_only = alike;
        return program;
    }

    std::shared_ptr<const Program> prepare(const Preparation& asked, const std::vector<Store>& stores, bool alike) {
        PullRequest request{graph_, parameters_, {}, {}, asked.target, 0, "prepare"};
        request.exact = true;
        request.beside = asked.beside;
        request.extras = asked.extras;
        if (first_ > 0) request.places = placement_.places_of(plan_.passes[0]);
        for (const Store& store : stores) request.sinks.push_back(placement_.sink_of(store));
        std::vector<bool> seen(static_cast<size_t>(graph_.size()));
        std::vector<ValueId> open;
        for (const auto& extra : asked.extras) {
            open.push_back(extra->root);
            place_leaves_below(open, request.places, seen);
        }
        if (context_.known) return context_.known->prepare(alike ? &asked : nullptr, request);
        return std::make_shared<const Program>(pull(request));
    }

    // To which pass the preparation is counted: where the plan has none, to the first that wants packed weights.
    size_t preparing_pass() const {
        if (first_ > 0) return 0;
        for (const Packed& packed : packed_)
            if (packed.weights.job) return packed.pass;
        return 0;
    }

    // Those that were not seen yet.
    void place_leaves_below(std::vector<ValueId>& open, Places& places, std::vector<bool>& seen) const {
        while (!open.empty()) {
            const ValueId v = open.back();
            open.pop_back();
            if (seen[static_cast<size_t>(v)]) continue;
            seen[static_cast<size_t>(v)] = true;
            if (is_leaf(graph_[v].op) && placement_.in_memory(v) && !places.contains(v))
                places.emplace(v, placement_.place_of(v));
            for (ValueId arg : graph_[v].args) open.push_back(arg);
        }
    }

    void place_buffers(const std::vector<bool>& met) {
        const Placement::Room room = placement_.place_buffers(met);
        assembly_.workspace_bytes = static_cast<size_t>(room.workspace);
        assembly_.kept_bytes = static_cast<size_t>(room.kept);
    }

    // Packed weights have memory of their own: they are written before other passes run. What a pass packs itself lies
    // where another one's did, and so do groups.
    void place_packed() {
        const size_t begin = assembly_.workspace_bytes;
        size_t group = 0, end = begin, all_groups = begin;
        for (Packed& packed : packed_) {
            if (!packed.weights.job && !packed.weights.kept) continue;
            if (packed.group != group) group = packed.group, end = begin;
            size_t& to = packed.weights.kept ? assembly_.kept_bytes : end;
            packed.at = {packed.weights.kept ? Address::Kind::kept : Address::Kind::workspace, 0,
                         static_cast<int64_t>(to)};
            to += whole_lines(static_cast<size_t>(packed.weights.bytes));
            all_groups = std::max(all_groups, end);
        }
        assembly_.workspace_bytes = all_groups;
        for (Packed& packed : packed_) {
            if (packed.weights.job || packed.weights.kept) continue;
            packed.at = {Address::Kind::workspace, 0, static_cast<int64_t>(all_groups)};
            assembly_.workspace_bytes = std::max(assembly_.workspace_bytes,
                                                 all_groups + whole_lines(static_cast<size_t>(packed.weights.bytes)));
        }
    }

    // Scratch lies behind the buffers; passes follow each other on one stream, so they share it.
    void bind(Program program, size_t pass, std::optional<int64_t> scratch = {}) {
        const int64_t scratch_at = scratch.value_or(static_cast<int64_t>(assembly_.workspace_bytes));
        for (Launch& launch : program.launches) {
            BoundLaunch bound{std::move(launch), {}, pass};
            if (!options_.freeze) bound.launch.parameters_only = false;
            bound.addresses.reserve(bound.launch.arguments.size());
            for (const Argument& argument : bound.launch.arguments)
                if (argument.kind != Argument::Kind::bytes) bound.addresses.push_back(address_of(argument, scratch_at));
            assembly_.launches.push_back(std::move(bound));
        }
        if (!scratch) scratch_bytes_ = std::max(scratch_bytes_, whole_lines(program.scratch_bytes));
    }

    const Packed& packed_for(size_t pass) const {
        const auto at = std::lower_bound(packed_.begin(), packed_.end(), pass,
                                         [](const Packed& packed, size_t p) { return packed.pass < p; });
        require(at != packed_.end() && at->pass == pass, "CUDA: pass ", pass, " has no packed weights");
        return *at;
    }

    Address address_of(const Argument& argument, int64_t scratch_at) const {
        Address address{Address::Kind::workspace, 0, scratch_at};
        if (argument.kind == Argument::Kind::output)
            address = {Address::Kind::output, argument.value, 0};
        else if (argument.kind == Argument::Kind::packed)
            address = packed_for(static_cast<size_t>(argument.value)).at;
        else if (argument.kind != Argument::Kind::scratch && argument.value != Argument::in_scratch)
            address = placement_.address(argument.value);
        address.offset += argument.offset;
        return address;
    }

    void copy_repeated_outputs() {
        const auto& outputs = graph_.outputs();
        PullRequest request{graph_, parameters_, {}, {}, target_, 0, "copy"};
        for (size_t j = 0; j < outputs.size(); ++j) {
            const auto here = outputs.begin() + static_cast<std::ptrdiff_t>(j);
            if (std::find(outputs.begin(), here, outputs[j]) == here) continue;
            request.places.emplace(outputs[j], placement_.place_of(outputs[j]));
            request.sinks.push_back({outputs[j], placement_.output_place(j)});
        }
        if (request.sinks.empty() || plan_.passes.empty()) return;
        bind(pull(request), plan_.passes.size() - 1);
    }

    const Plan& plan_;
    const Graph& graph_;
    const Options& options_;
    const Target target_, preparing_;
    const DenseConfigs& configs_;
    const std::vector<bool> parameters_;
    Placement placement_;
    const PassContext context_;
    const size_t first_;  // pass behind the one that prepares
    Assembly assembly_;
    std::vector<Packed> packed_;  // in order of the passes
    std::vector<size_t> groups_;  // of each the pass that it is packed before
    size_t scratch_bytes_ = 0;
};

}  // namespace

Assembly assemble(const Plan& plan, const Options& options, const Target& target, bool aligned,
                  const DenseConfigs& configs, KnownKernels* known) {
    const std::optional<Plan> shares = with_shares(plan), in_place = with_sums_in_place(shares ? *shares : plan);
    return Assembler(in_place ? *in_place : shares ? *shares : plan, options, target, aligned, configs, known).run();
}

std::vector<std::string> configs_of(const Plan& plan, size_t pass, const Assembly& assembly, const Options& options,
                                    const Target& target, bool aligned, size_t most) {
    if (plan.passes[pass].kind != PassKind::dense || target.general_only) return {};
    const std::optional<Plan> shares = with_shares(plan);
    const Plan& seen = shares ? *shares : plan;
    const Pass& own = seen.passes[pass];
    const Fp32Precision precision = precision_of(seen.graph, own.anchor, options);
    return dense_configs({seen, own, assembly.strides, precision, target, aligned, ""}, most);
}

}  // namespace transfuse::cuda
