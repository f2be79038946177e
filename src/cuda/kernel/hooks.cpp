#include "cuda/kernel/hooks.h"

#include <set>

#include "transfuse/error.h"

namespace transfuse::cuda {

std::string hooked(std::string_view text, const Hooks& hooks) {
    constexpr std::string_view opens = "/*{", named = "*/", closes = "/*}*/";
    std::string written;
    std::set<std::string_view> met;
    for (size_t open; (open = text.find(opens)) != text.npos;) {
        written += text.substr(0, open);
        text.remove_prefix(open + opens.size());
        const size_t name = text.find(named), close = text.find(closes);
        require(name < close && close != text.npos, "a hook of a kernel's text does not end");
        const auto hook = hooks.find(text.substr(0, name));
        if (hook != hooks.end()) met.insert(hook->first);
        const size_t begin = name + named.size();
        written += hook != hooks.end() ? std::string_view(hook->second) : text.substr(begin, close - begin);
        text.remove_prefix(close + closes.size());
    }
    for (const auto& [name, what] : hooks) require(met.contains(name), "a kernel's text has no hook ", name);
    return written.append(text);
}

}  // namespace transfuse::cuda
