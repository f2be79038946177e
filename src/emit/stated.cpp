#include "emit/stated.h"

#include <cstring>
#include <map>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "cuda/assemble/build.h"
#include "cuda/dense/dense.h"
#include "transfuse/error.h"

namespace transfuse::emit {

namespace {

using cuda::Address;
using cuda::Argument;

std::string quoted(std::string_view text) {
    static constexpr char digits[] = "0123456789abcdef";
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\')
            (out += '\\') += c;
        else if (c == '\n')
            out += "\\n";
        else if (const auto code = static_cast<unsigned char>(c); code < 0x20)
            ((out += "\\u00") += digits[code >> 4]) += digits[code & 15];
        else
            out += c;
    }
    return out + '"';
}

template <class List>
std::string listed(const List& list) {
    std::ostringstream out;
    for (const auto& item : list) out << (out.tellp() > 0 ? "," : "") << item;
    return "[" + out.str() + "]";
}

std::string json(const Type& type, const Sizes& strides) {
    return "[" + quoted(name(type.dtype)) + "," + listed(type.shape) + "," + listed(strides) + "]";
}

std::string hexadecimal(const Argument& argument) {
    static constexpr char digits[] = "0123456789abcdef";
    std::string out;
    for (int i = 0; i < argument.size; ++i) {
        const auto byte = static_cast<unsigned>(argument.data[static_cast<size_t>(i)]);
        (out += digits[byte >> 4]) += digits[byte & 15];
    }
    return out;
}

template <class T>
std::string number(const Argument& argument) {
    T value;
    std::memcpy(&value, argument.data.data(), sizeof value);
    std::ostringstream out;
    out << value;
    return out.str();
}

// Of a plain argument its kind and value: a whole number is one a reader knows.
std::string json(const Argument& argument) {
    if (argument.whole && argument.size == 4) return "[\"i32\"," + number<int32_t>(argument) + "]";
    if (argument.whole && argument.size == 8) return "[\"i64\"," + number<int64_t>(argument) + "]";
    return "[\"bytes\"," + quoted(hexadecimal(argument)) + "]";
}

std::string json(const Address& address) {
    require(address.kind != Address::Kind::kept, "emit: a file prepares its weights at every call");
    const char* kind = address.kind == Address::Kind::leaf     ? "\"leaf\","
                       : address.kind == Address::Kind::output ? "\"output\","
                                                               : "\"workspace\",";
    return kind + std::to_string(address.position) + "," + std::to_string(address.offset);
}

std::string json(const cuda::TmaTensor& tensor) {
    return ",{\"dtype\":" + quoted(name(tensor.dtype)) + ",\"tf32\":" + (tensor.rounds_to_tf32 ? "true" : "false") +
           ",\"swizzle\":" + std::to_string(tensor.swizzle) + ",\"extent\":" + listed(tensor.extent) +
           ",\"box\":" + listed(tensor.box) + ",\"stride\":" + listed(tensor.stride) + "}";
}

std::string json(const cuda::BoundLaunch& bound, size_t source) {
    const cuda::Launch& l = bound.launch;
    std::string arguments;
    size_t pointer = 0;
    for (const Argument& argument : l.arguments) {
        if (!arguments.empty()) arguments += ",";
        if (argument.kind == Argument::Kind::bytes) {
            arguments += json(argument);
            continue;
        }
        arguments += "[" + json(bound.addresses[pointer++]);
        if (argument.kind == Argument::Kind::boxes) {
            cuda::TmaTensor tensor;
            std::memcpy(&tensor, argument.data.data(), sizeof tensor);
            arguments += json(tensor);
        }
        arguments += "]";
    }
    return "{\"source\":" + std::to_string(source) + ",\"grid\":" + listed(l.grid) + ",\"block\":" + listed(l.block) +
           ",\"cluster\":" + std::to_string(l.cluster) + ",\"shared\":" + std::to_string(l.shared_bytes) +
           ",\"early\":" + (l.early ? "true" : "false") + ",\"note\":" + quoted(l.note.str()) + ",\"arguments\":[" +
           arguments + "]}";
}

// Of a graph's leaves or outputs; no strides: contiguous.
std::string json(const Graph& graph, const std::vector<ValueId>& values, const std::vector<Sizes>& strides) {
    std::vector<std::string> list;
    for (size_t i = 0; i < values.size(); ++i) {
        const Type& type = graph[values[i]].type;
        list.push_back(json(type, i < strides.size() ? strides[i] : contiguous_strides(type.shape)));
    }
    return listed(list);
}

}  // namespace

std::string stated(const Plan& plan, const cuda::Options& options, const cuda::Target& target,
                   cuda::KnownKernels& known) {
    const bool compiler = cuda::nvrtc_available(nullptr);
    // Of all others nothing is asked but that they compile.
    const auto compile = [&](const cuda::Source& source, int arch) {
        return compiler && source.entry == cuda::dense_entry ? cuda::compiled(source, arch)
                                                             : std::make_shared<const cuda::Binary>();
    };
    const cuda::Assembly assembly = cuda::assemble_compiled(plan, options, target, true, {}, compile, &known);
    std::map<std::pair<std::string, std::vector<std::string>>, size_t> numbers;
    std::vector<std::string> sources, launches;
    for (const cuda::BoundLaunch& bound : assembly.launches) {
        const cuda::Source& source = *bound.launch.source;
        const auto [at, fresh] = numbers.try_emplace({source.text, source.options}, numbers.size());
        if (fresh) {
            std::vector<std::string> words;
            for (const std::string& word : source.options) words.push_back(quoted(word));
            sources.push_back("{\"entry\":" + quoted(source.entry) + ",\"text\":" + quoted(source.text) +
                              ",\"options\":" + listed(words) + "}");
        }
        if (bound.launch.grid[0] > 0) launches.push_back(json(bound, at->second));
    }
    return "{\"compiled\":" + std::string(compiler ? "true" : "false") +
           ",\"workspace\":" + std::to_string(assembly.workspace_bytes) +
           ",\"leaves\":" + json(plan.graph, plan.graph.leaves(), options.leaf_strides) +
           ",\"outputs\":" + json(plan.graph, plan.graph.outputs(), options.output_strides) +
           ",\"sources\":" + listed(sources) + ",\"launches\":" + listed(launches) + "}";
}

}  // namespace transfuse::emit
