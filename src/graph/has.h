// Whether a value is in a list of values.
#pragma once

#include <algorithm>

#include "transfuse/graph.h"

namespace transfuse {

template <class List>
bool has(const List& list, ValueId v) {
    return std::find(list.begin(), list.end(), v) != list.end();
}

}  // namespace transfuse
