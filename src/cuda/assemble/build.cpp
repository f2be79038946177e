#include "cuda/assemble/build.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>
#include <set>
#include <string_view>

#include "cuda/assemble/figures.h"
#include "cuda/dense/dense.h"
#include "cuda/runtime/side_by_side.h"
#include "transfuse/error.h"

namespace transfuse::cuda {

namespace {

using figures::assemble::most_attempts, figures::assemble::most_spilled;

struct Outcome {
    std::exception_ptr error;
    std::string words;  // of the error, or what is wrong with the code
};

// Compiles every launch's kernel that is not known, which then are `fresh`; several at a time. Those that are become
// the sources known.
std::vector<Outcome> compile_each(Assembly& assembly, int arch, const Compiler& compile, const KnownKernels* known,
                                  std::vector<size_t>& fresh) {
    std::vector<Outcome> outcomes(assembly.launches.size());
    for (size_t i = 0; i < outcomes.size(); ++i) {
        std::shared_ptr<const Source>& source = assembly.launches[i].launch.source;
        if (auto same = known ? known->compiled(source, arch) : nullptr)
            source = std::move(same);
        else
            fresh.push_back(i);
    }
    if (fresh.empty()) return outcomes;
    // Launches that are alike wait for one of them, but no thread does.
    std::map<std::string_view, size_t> first;  // by text
    std::vector<size_t> distinct;
    const auto source_of = [&](size_t i) -> const Source& { return *assembly.launches[i].launch.source; };
    for (const size_t i : fresh) {
        const auto [known_text, is_first] = first.try_emplace(source_of(i).text, i);
        if (is_first || source_of(known_text->second) != source_of(i)) distinct.push_back(i);
    }
    side_by_side(distinct.size(), [&](size_t k) {
        const size_t i = distinct[k];
        const Source& source = *assembly.launches[i].launch.source;
        try {
            const auto binary = compile(source, arch);
            const Resources used = resources_in(binary->log, source.entry);
            if (source.entry == dense_entry && used.spill_bytes > most_spilled)
                outcomes[i].words = "it spills " + std::to_string(used.spill_bytes) + " bytes of registers";
        } catch (const std::exception& error) {
            outcomes[i] = {std::current_exception(), error.what()};
        }
    });
    for (const size_t i : fresh)
        if (const size_t alike = first.at(source_of(i).text); source_of(alike) == source_of(i))
            outcomes[i] = outcomes[alike];
    return outcomes;
}

}  // namespace

Assembly assemble_compiled(const Plan& plan, const Options& options, const Target& target, bool aligned,
                           DenseConfigs configs, const Compiler& compile, KnownKernels* known) {
    std::map<size_t, std::set<std::string>> refused;  // per pass
    std::set<size_t> portable;                        // passes that went on to the portable family
    for (;;) {
        Assembly assembly = assemble(plan, options, target, aligned, configs, known);
        std::vector<size_t> fresh;
        const std::vector<Outcome> outcomes = compile_each(assembly, target.arch, compile, known, fresh);
        bool again = false;
        for (size_t i = 0; i < outcomes.size(); ++i) {
            if (outcomes[i].words.empty()) continue;
            const BoundLaunch& bound = assembly.launches[i];
            const size_t pass = bound.pass;
            const bool general = configs.contains(pass) && configs.at(pass) == no_dense_config;
            if (outcomes[i].error && (general || !bound.launch.source->entry.starts_with(dense_family)))
                std::rethrow_exception(outcomes[i].error);
            if (again) continue;
            if (const auto taken = assembly.taken.find(pass); taken != assembly.taken.end() && taken->second.needless) {
                known->settle(*taken->second.structure);  // the known kernel it is
                again = true;
                continue;
            }
            const std::string config = assembly.configs[pass];
            refused[pass].insert(config);
            std::string other(no_dense_config);
            if (refused[pass].size() < most_attempts)
                for (const std::string& text :
                     configs_of(plan, pass, assembly, options, target, aligned, most_attempts))
                    if (!refused[pass].contains(text)) {
                        other = text;
                        break;
                    }
            if (other == no_dense_config && outcomes[i].error && target.has_wgmma() && portable.insert(pass).second)
                other = portable_config;
            if (other == no_dense_config && !outcomes[i].error) continue;  // a kernel that spills is better than none
            std::fprintf(
                stderr, "transfuse: warning: the dense kernel \"%s\" is not used (%s); %s\n", config.c_str(),
                outcomes[i].words.substr(0, 300).c_str(),
                other == no_dense_config ? "the general kernel takes the pass" : ("the next is " + other).c_str());
            configs[pass] = other;
            again = true;
        }
        if (again) continue;
        if (known) {
            for (const size_t i : fresh) known->remember(assembly.launches[i].launch.source, target.arch);
            for (const BoundLaunch& bound : assembly.launches) {
                const auto taken = assembly.taken.find(bound.pass);  // passes with one text share its source
                if (taken != assembly.taken.end() && bound.launch.source->entry == dense_entry)
                    taken->second.kernel.source = bound.launch.source;
            }
            for (const auto& [pass, taken] : assembly.taken) known->remember(taken);
        }
        return assembly;
    }
}

}  // namespace transfuse::cuda
