// The source of a kernel from the text that is its own: the device functions that all begin with are put before it.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "cuda/kernel/kernel.h"

namespace transfuse::cuda {

// own: the pieces of it, the entry's name among them. text_cache: where a program finds what it has written already, by
// its own part of the text alone; null: nothing is found, the text is written.
std::shared_ptr<const Source> whole_source(TextCache* text_cache, bool wide_index, const std::string& entry,
                                           std::initializer_list<std::string_view> own);

}  // namespace transfuse::cuda
