#include "emit/stated.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <sstream>
#include <tuple>
#include <vector>

#include "algebra/verdicts.h"
#include "cuda/build.h"
#include "cuda/dense/dense.h"
#include "cuda/row_length.h"
#include "plan/shifts.h"
#include "transfuse/error.h"

namespace transfuse::emit {

namespace {

Graph prepared(const std::string& text, const Request& request, Verdicts& said) {
    struct Scope {
        explicit Scope(Verdicts* v) { verdicts = v; }
        ~Scope() { verdicts = nullptr; }
    } scope(&said);
    if (request.gradient.wrt.empty())
        return rewrite(parse(text),
                       {.inference = request.inference, .without = {}, .only = {}, .prices = Machine::h200().prices})
            .rewritten;
    const Derivation forward =
        rewrite(parse(text), {.inference = false, .differentiated = true, .without = {}, .only = {}});
    return rewrite(gradient(forward.rewritten, request.gradient)).rewritten;
}

// A file's kernels serve rows of any length: none holds a whole one.
Machine machine_of_files() {
    Machine machine = Machine::h200();
    machine.tile_row = 0;
    return machine;
}

// Two graphs must be one program at two sizes.
void require_alike(const Graph& a, const Graph& b) {
    for (ValueId v = 0; v < std::min(a.size(), b.size()); ++v) {
        const Node &x = a[v], &y = b[v];
        if (x.op != y.op || x.args != y.args || x.type.rank() != y.type.rank())
            fail("emit: at these sizes %", v, " is ", name(y.op), to_string(y.type.shape), ", at the example's ",
                 name(x.op), to_string(x.type.shape));
    }
    require(a.size() == b.size() && a.outputs() == b.outputs(), "emit: at these sizes the graph is another one");
}

// The same passes over a graph of other sizes. Where a piece of a concat begins is counted anew.
Plan resized(const Plan& plan, const Graph& rewritten) {
    Plan result = plan;
    const Graph graph = gather_shifts(rewritten, plan.gathered);
    result.graph = graph;
    for (Pass& pass : result.passes)
        for (Store& store : pass.stores) {
            const Node& target = graph[store.target];
            if (store.start.empty() || target.op != Op::concat) continue;
            const auto axis = static_cast<size_t>(target.attributes.integer(Key::axis));
            int64_t begin = 0;
            for (ValueId piece : target.args) {
                if (piece == store.value) store.start[axis] = begin;
                begin += graph[piece].type.shape[axis];
            }
        }
    return result;
}

std::string quoted(std::string_view text) {
    std::string out = "\"";
    for (char c : text) {
        if (c == '"' || c == '\\')
            (out += '\\') += c;
        else if (c == '\n')
            out += "\\n";
        else
            out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
    return out + '"';
}

template <class List>
std::string listed(const List& list) {
    std::ostringstream out;
    for (const auto& item : list) out << (out.tellp() > 0 ? "," : "") << item;
    return "[" + out.str() + "]";
}

std::string_view kind(cuda::Address::Kind kind) {
    switch (kind) {
        case cuda::Address::Kind::leaf:
            return "leaf";
        case cuda::Address::Kind::output:
            return "output";
        default:
            return "workspace";
    }
}

std::string hexadecimal(const cuda::Argument& argument) {
    static constexpr char digits[] = "0123456789abcdef";
    std::string out;
    for (int i = 0; i < argument.size; ++i) {
        const auto byte = static_cast<unsigned>(argument.data[static_cast<size_t>(i)]);
        (out += digits[byte >> 4]) += digits[byte & 15];
    }
    return out;
}

// Of a convolution, its borders not cut: each tap at each input or output, whichever are fewer. Decides whether TF32
// pays.
double flops_of(const Graph& graph, ValueId anchor) {
    if (anchor < 0 || graph[anchor].op != Op::lattice) return 0;
    const Sizes &x = graph[graph[anchor].args[0]].type.shape, &y = graph[anchor].type.shape,
                &w = graph[graph[anchor].args[1]].type.shape;
    bool expands = false;
    for (const Lattice& axis : lattices(graph, anchor)) expands = expands || axis.up > 1;
    return 2.0 * static_cast<double>(numel(w) / (w[0] * w[1] * w[2]) * (expands ? numel(x) * w[2] : numel(y) * w[1]));
}

std::string json(const cuda::BoundLaunch& bound, size_t source, double flops) {
    const cuda::Launch& l = bound.launch;
    std::string out = "{\"source\":" + std::to_string(source) + ",\"pass\":" + std::to_string(bound.pass) +
                      ",\"grid\":" + listed(l.grid) + ",\"block\":" + listed(l.block) +
                      ",\"cluster\":" + std::to_string(l.cluster) + ",\"shared\":" + std::to_string(l.shared_bytes) +
                      ",\"early\":" + (l.early ? "true" : "false") +
                      ",\"flops\":" + std::to_string(static_cast<int64_t>(flops)) +
                      ",\"note\":" + quoted(l.note.str()) + ",\"arguments\":[";
    size_t pointer = 0;
    bool first = true;
    for (const cuda::Argument& argument : l.arguments) {
        out += first ? "" : ",";
        first = false;
        if (argument.kind == cuda::Argument::Kind::bytes) {
            out += '"' + hexadecimal(argument) + '"';
            continue;
        }
        const cuda::Address& address = bound.addresses[pointer++];
        out += "[" + quoted(kind(address.kind)) + "," + std::to_string(address.position) + "," +
               std::to_string(address.offset);
        if (argument.kind == cuda::Argument::Kind::boxes) {
            cuda::BoxedTensor boxes;
            std::memcpy(&boxes, argument.data.data(), sizeof(boxes));
            out += "," + listed(boxes.extent) + "," + listed(boxes.box) + "," + listed(boxes.stride) +
                   (boxes.rounds_to_tf32 ? ",true," : ",false,") + std::to_string(boxes.swizzle) + "," +
                   std::to_string(bytes(boxes.dtype));
        }
        out += "]";
    }
    return out + "]}";
}

// `optimize` passes over dense kernels that spill: what it takes instead, by pass. The same example is asked for at
// many sizes, and compiled once.
cuda::DenseConfigs instead_of_spilling(const Request& request, const Plan& plan, const CompileOptions& options) {
    static std::mutex one_at_a_time;
    static std::map<std::tuple<std::string, int, int, bool, bool, bool>, cuda::DenseConfigs> known;
    if (!cuda::nvrtc_available(nullptr)) return {};
    const std::tuple key(print(plan.graph), static_cast<int>(request.precision), request.target.arch, request.aligned,
                         request.one_row_length, request.own);
    const std::lock_guard lock(one_at_a_time);
    if (const auto at = known.find(key); at != known.end()) return at->second;
    cuda::Decisions unread;
    cuda::Target target = request.target;
    if (!request.own) target.decisions = &unread;
    const auto compile = [](const cuda::Source& source, int arch) {
        return source.entry == cuda::dense_entry ? cuda::compiled(source, arch)
                                                 : std::make_shared<const cuda::Binary>();
    };
    const cuda::Assembly first = cuda::assemble(plan, options, target, request.aligned),
                         compiled = cuda::assemble_compiled(plan, options, target, request.aligned, {}, compile);
    cuda::DenseConfigs configs;
    for (const auto& [pass, config] : first.configs) {
        const auto taken = compiled.configs.find(pass);
        if (taken == compiled.configs.end())
            configs[pass] = cuda::no_dense_config;
        else if (!(taken->second == config))
            configs[pass] = taken->second.str();
    }
    return known.emplace(key, configs).first->second;
}

}  // namespace

Stated state(const Request& request) {
    struct Rows {
        explicit Rows(bool one) { cuda::rows_have_one_length = one; }
        ~Rows() { cuda::rows_have_one_length = false; }
    } rows(request.one_row_length);
    Verdicts said;
    const Graph example = prepared(request.example, request, said);
    CompileOptions options;
    options.precision = request.precision;
    if (request.own) {
        Stated stated{parse(request.text), plan(example, machine_of_files()), {}};
        stated.assembly = cuda::assemble(stated.plan, options, request.target, request.aligned,
                                         instead_of_spilling(request, stated.plan, options));
        return stated;
    }
    said.repeating = true, said.next = 0;
    const Graph graph = prepared(request.text, request, said);
    require_alike(example, graph);
    const Plan chosen = plan(example, machine_of_files());
    cuda::Decisions decisions;
    cuda::Target target = request.target;
    target.decisions = &decisions;
    const cuda::DenseConfigs configs = instead_of_spilling(request, chosen, options);
    cuda::assemble(chosen, options, target, request.aligned, configs);
    decisions.repeat();
    Stated stated{parse(request.text), resized(chosen, graph), {}};
    stated.assembly = cuda::assemble(stated.plan, options, target, request.aligned, configs);
    require(decisions.spent(), "emit: fewer decisions at these sizes than at the example's");
    return stated;
}

std::string json(const Stated& stated) {
    const Graph& graph = stated.plan.graph;
    auto types = [&](const std::vector<ValueId>& values) {
        std::vector<std::string> list;
        for (ValueId v : values)
            list.push_back("[" + quoted(name(graph[v].type.dtype)) + "," + listed(graph[v].type.shape) + "]");
        return listed(list);
    };
    std::vector<std::string> extents, launches, sources, notes;
    for (const Graph* g : {&stated.written, &graph})
        for (const Node& node : g->nodes()) extents.push_back(listed(node.type.shape));
    std::map<std::string, size_t> known;
    for (const cuda::BoundLaunch& bound : stated.assembly.launches) {
        const cuda::Source& source = *bound.launch.source;
        const auto [at, fresh] = known.try_emplace(source.text, known.size());
        if (fresh) sources.push_back("{\"entry\":" + quoted(source.entry) + ",\"text\":" + quoted(source.text) + "}");
        const ValueId anchor = stated.plan.passes[bound.pass].anchor;
        launches.push_back(json(bound, at->second, flops_of(graph, anchor)));
    }
    for (const std::string& note : stated.assembly.notes) notes.push_back(quoted(note));
    return "{\"workspace\":" + std::to_string(stated.assembly.workspace_bytes) +
           ",\"leaves\":" + types(graph.leaves()) + ",\"outputs\":" + types(graph.outputs()) +
           ",\"extents\":" + listed(extents) + ",\"sources\":" + listed(sources) + ",\"launches\":" + listed(launches) +
           ",\"notes\":" + listed(notes) + "}";
}

}  // namespace transfuse::emit
