// What a kind of pass is called wherever people read it: printed plans, notes, reports.
#pragma once

#include <string_view>

#include "transfuse/plan.h"

namespace transfuse {

constexpr std::string_view pass_name(PassKind kind) {
    switch (kind) {
        case PassKind::prepare:
            return "prepare";
        case PassKind::moments:
            return "moments";
        case PassKind::dense:
            return "dense";
        case PassKind::correlate:
            return "correlate";
        case PassKind::pointwise:
            return "pointwise";
        case PassKind::library:
            return "library";
    }
    return "?";
}

}  // namespace transfuse
