// A kernel while it is written: its parameters, its body, its tables, and the launch they become.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cuda/general/emit/whole_source.h"
#include "cuda/general/pull/pull.h"

namespace transfuse::cuda {

class KernelText {
public:
    KernelText(const Surroundings& s, const Places& places, int vector = 1, bool wide_index = false)
        : values_(s.parameters ? *s.parameters : parameter_values(s.plan.graph)),
          wide_index_(wide_index),
          text_cache_(s.text_cache),
          parameters(wide_index, s.target.any_size),
          emitter(s.plan.graph, values_, places, parameters, body, tables_, false, vector) {}
    KernelText(const KernelText&) = delete;
    KernelText& operator=(const KernelText&) = delete;

    std::string integer(int64_t value) { return parameters.integer(value, true); }
    // A size as a parameter of its own: the text stays where it becomes 1 or equals another.
    std::string size(int64_t value) { return parameters.count(value); }
    std::string let(std::string_view text, std::string_view prefix) { return let({text}, prefix); }
    std::string let(Body::Pieces text, std::string_view prefix) { return emitter.let("int", text, prefix); }

    // It starts while its predecessor ends, so the body waits (TF_SEQUENCE). `code`: device functions it calls.
    // resident: blocks of a multiprocessor that registers must do for; 0: as the compiler likes.
    Launch launch(const std::string& entry, int64_t grid, int64_t threads, std::string note,
                  const std::string& code = "", int64_t resident = 0) const {
        const std::string bounds = number(threads) + (resident ? ", " + number(resident) : std::string());
        Launch launch;
        launch.source = whole_source(text_cache_, wide_index_, entry,
                                     {code, tables_, "\nextern \"C\" __global__ void __launch_bounds__(", bounds, ") ",
                                      entry, "(", parameters.declaration(), ") {\n", body.text(), "}\n"});
        launch.grid = {static_cast<uint32_t>(grid), 1, 1};
        launch.block = {static_cast<uint32_t>(threads), 1, 1};
        launch.early = true;
        launch.arguments = parameters.arguments();
        launch.note = std::move(note);
        return launch;
    }

private:
    const std::vector<bool> values_;
    const bool wide_index_;
    TextCache* const text_cache_;
    std::string tables_;

public:
    Parameters parameters;
    Body body;
    Emitter emitter;
};

}  // namespace transfuse::cuda
