#include "cuda/general/emit/whole_source.h"

#include "cuda/general/emit/emitter.h"
#include "cuda/general/emit/text_cache.h"
#include "cuda/kernel/expression.h"

namespace transfuse::cuda {

namespace {

const std::string& beginning(bool wide_index) {
    const auto written = [](bool wide) {
        return std::string(device_math())
            .append(index_code(wide))
            .append(Emitter::combine_code())
            .append(sequence_code());
    };
    static const std::string narrow = written(false), wide = written(true);
    return wide_index ? wide : narrow;
}

}  // namespace

std::shared_ptr<const Source> whole_source(TextCache* text_cache, bool wide_index, const std::string& entry,
                                           std::initializer_list<std::string_view> own) {
    thread_local std::string text;  // kept for the next: to get memory for it takes longer than to fill it
    text.clear();
    for (const std::string_view piece : own) text += piece;
    const auto make = [&] { return std::make_shared<const Source>(Source{entry, beginning(wide_index) + text, {}}); };
    return text_cache ? text_cache->wholes[wide_index].get(text, make) : make();
}

}  // namespace transfuse::cuda
