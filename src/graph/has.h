// Whether a value is in a list of values.
#pragma once

#include <algorithm>
#include <vector>

#include "transfuse/graph.h"

namespace transfuse {

inline bool has(const std::vector<ValueId>& list, ValueId v) {
    return std::find(list.begin(), list.end(), v) != list.end();
}

}  // namespace transfuse
