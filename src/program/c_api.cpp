#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <thread>

#include "cuda/runtime/nvrtc.h"
#include "plan/pass_name.h"
#include "transfuse/algebra.h"
#include "transfuse/c.h"
#include "transfuse/error.h"
#include "transfuse/plan.h"
#include "transfuse/program.h"

namespace {

using namespace transfuse;

char* copy(const std::string& text) {
    char* out = static_cast<char*>(std::malloc(text.size() + 1));
    if (out != nullptr) std::memcpy(out, text.c_str(), text.size() + 1);
    return out;
}

// No exception may cross the C boundary.
template <class Body, class Result>
Result guarded(char** error, Result failure, const Body& body) {
    try {
        return body();
    } catch (const std::exception& exception) {
        if (error != nullptr) *error = copy(exception.what());
        return failure;
    }
}

std::string quoted(std::string_view text) {
    std::string out = "\"";
    for (char c : text) {
        if (c == '"' || c == '\\') {
            (out += '\\') += c;
        } else if (c == '\n') {
            out += "\\n";
        } else if (static_cast<unsigned char>(c) < 0x20) {
            out += ' ';
        } else {
            out += c;
        }
    }
    return out + '"';
}

std::string json(const Cost& cost) {
    std::ostringstream out;
    out.precision(17);
    out << "{\"flops\":" << cost.flops << ",\"bytes\":" << cost.bytes << "}";
    return out.str();
}

Machine machine_named(const char* machine) {
    if (machine != nullptr && std::strcmp(machine, "cuda") == 0) return Machine::h200();
    return Machine::cpu(static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
}

std::string json(const Plan& plan) {
    std::ostringstream out;
    out << "{\"machine\":" << quoted(plan.machine.name) << ",\"seconds\":" << plan.seconds << ",\"passes\":[";
    for (size_t i = 0; i < plan.passes.size(); ++i) {
        const Pass& pass = plan.passes[i];
        out << (i == 0 ? "" : ",") << "{\"kind\":" << quoted(pass_name(pass.kind)) << ",\"steps\":" << pass.steps.size()
            << ",\"cost\":" << json(pass.cost) << ",\"why\":" << quoted(pass.why) << "}";
    }
    out << "]}";
    return out.str();
}

std::vector<ValueId> numbers(const std::string& text) {
    std::vector<ValueId> list;
    std::istringstream in(text);
    for (std::string item; std::getline(in, item, ',');) list.push_back(std::stoi(item));
    return list;
}

std::vector<int64_t> read_list(const char* text) {
    std::vector<int64_t> list;
    std::istringstream in(text);
    for (int64_t number = 0; in >> number;) list.push_back(number);
    return list;
}

// Tensors without memory.
std::vector<TensorView> read_views(const char* text) {
    std::vector<TensorView> views;
    std::istringstream in(text);
    size_t rank = 0;
    for (std::string dtype; in >> dtype >> rank;) {
        TensorView view{nullptr, dtype_named(dtype), Sizes(rank, 0), Sizes(rank, 0)};
        for (Sizes* list : {&view.shape, &view.strides})
            for (int64_t& number : *list)
                require(static_cast<bool>(in >> number), "transfuse_layouts: a number is missing");
        views.push_back(std::move(view));
    }
    return views;
}

// "outputs:leaves", both as numbers.
GradientRequest read_request(const std::string& text) {
    const size_t colon = text.find(':');
    require(colon != std::string::npos, "outputs:leaves is expected, got ", text);
    return {numbers(text.substr(0, colon)), numbers(text.substr(colon + 1))};
}

struct StatedOptions {
    CallMode mode;
    int arch = 90;
    GradientRequest gradient;
};

StatedOptions read_options(const char* options) {
    StatedOptions read;
    read.mode.engine = Engine::cuda, read.mode.inference = false;
    std::istringstream in(options);
    const auto number_of = [](const std::string& word) { return std::stoi(word.substr(word.find('=') + 1)); };
    for (std::string word; in >> word;) {
        if (word == "tf32") {
            read.mode.precision = Fp32Precision::tf32;
        } else if (word == "inference") {
            read.mode.inference = true;
        } else if (word.starts_with("keep=")) {
            const std::vector<ValueId> told = numbers(word.substr(5));
            read.mode.keep = read_keep(std::vector<int64_t>(told.begin(), told.end()));
        } else if (word.starts_with("arch=")) {
            read.arch = number_of(word);
        } else if (word.starts_with("products=")) {
            read.mode.products = number_of(word);
        } else if (word.starts_with("gradient=")) {
            read.gradient = read_request(word.substr(9));
        } else {
            fail("transfuse_stated: unknown option ", word);
        }
    }
    return read;
}

}  // namespace

extern "C" {

int64_t transfuse_define(const char* text, char** error) {
    return guarded(error, int64_t{-1}, [&] { return define_program(text); });
}

int64_t transfuse_hold(const char* text, uint64_t salt, char** error) {
    return guarded(error, int64_t{-1}, [&] { return hold_program(text, salt); });
}

void transfuse_release(int64_t handle) { release_program(handle); }

void transfuse_forget_frozen(int64_t handle, char** error) {
    guarded(error, 0, [&] {
        program(handle)->forget_frozen();
        return 0;
    });
}

char* transfuse_explain(const char* text, const char* machine, char** error) {
    return guarded(error, static_cast<char*>(nullptr), [&] {
        const Machine device = machine_named(machine);
        const Derivation derivation = rewrite(parse(text), {.without = {}, .only = {}, .prices = device.prices});
        return copy(explain(derivation) + "\n" + print(plan(derivation.rewritten, device)));
    });
}

char* transfuse_summary(const char* text, const char* machine, char** error) {
    return guarded(error, static_cast<char*>(nullptr), [&] {
        const Machine device = machine_named(machine);
        const Derivation derivation = rewrite(parse(text), {.without = {}, .only = {}, .prices = device.prices});
        const Plan passes = plan(derivation.rewritten, device);
        std::string out = "{\"written\":" + quoted(print(derivation.written)) +
                          ",\"rewritten\":" + quoted(print(derivation.rewritten)) +
                          ",\"before\":" + json(cost(derivation.written)) +
                          ",\"after\":" + json(cost(derivation.rewritten)) + ",\"steps\":[";
        for (size_t i = 0; i < derivation.steps.size(); ++i) {
            const Step& step = derivation.steps[i];
            out += (i == 0 ? "{\"rule\":" : ",{\"rule\":") + quoted(step.rule) + ",\"what\":" + quoted(step.what) +
                   ",\"before\":" + json(step.before) + ",\"after\":" + json(step.after) + "}";
        }
        return copy(out + "],\"plan\":" + json(passes) + ",\"plan_text\":" + quoted(print(passes)) + "}");
    });
}

char* transfuse_infer(const char* text, char** error) {
    return guarded(error, static_cast<char*>(nullptr), [&] {
        const Graph graph = parse(text);
        std::string out;
        for (ValueId id : graph.outputs()) out += to_string(graph[id].type) + "\n";
        return copy(out);
    });
}

char* transfuse_layouts(int64_t handle, const char* leaves, const char* sizes, char** error) {
    return guarded(error, static_cast<char*>(nullptr), [&] {
        std::string out;
        for (bool last : program(handle)->outputs_channels_last(read_views(leaves), read_list(sizes)))
            out += last ? "last\n" : "contiguous\n";
        return copy(out);
    });
}

char* transfuse_kept(int64_t handle, const char* leaves, const char* sizes, const char* machine, const char* keep,
                     char** error) {
    return guarded(error, static_cast<char*>(nullptr), [&] {
        CallMode mode;
        mode.engine = machine != nullptr && std::strcmp(machine, "cuda") == 0 ? Engine::cuda : Engine::cpu;
        mode.inference = false, mode.keep = read_keep(read_list(keep));
        std::string out;
        for (const auto& [type, strides] : program(handle)->kept(read_views(leaves), read_list(sizes), mode))
            out += to_string(type) + " " + to_string(strides) + "\n";
        return copy(out);
    });
}

int64_t transfuse_products(int64_t handle, const char* of_leaves, char** error) {
    return guarded(error, int64_t{0}, [&] {
        std::vector<uint8_t> told;
        for (int64_t kinds : read_list(of_leaves)) told.push_back(static_cast<uint8_t>(kinds));
        return static_cast<int64_t>(program(handle)->products(std::move(told)));
    });
}

char* transfuse_describe(int64_t handle, char** error) {
    return guarded(error, static_cast<char*>(nullptr), [&] {
        const std::shared_ptr<Program> found = program(handle);
        const ProgramStatistics statistics = found->statistics();
        std::string out = "{\"plans\":" + std::to_string(statistics.plans) +
                          ",\"failures\":" + std::to_string(statistics.failures) + ",\"executables\":[";
        bool first = true;
        size_t workspace = 0;
        for (const auto& instance : found->instances()) {
            out += (first ? "" : ",") + quoted(instance->executable->describe());
            first = false;
            workspace = std::max(workspace, instance->workspace_bytes);
        }
        return copy(out + "],\"workspace_bytes\":" + std::to_string(workspace) +
                    ",\"kept_bytes\":" + std::to_string(found->bytes()) + "}");
    });
}

char* transfuse_stated(int64_t handle, const char* leaves, const char* sizes, const char* options, char** error) {
    return guarded(error, static_cast<char*>(nullptr), [&] {
        const StatedOptions asked = read_options(options);
        return copy(
            program(handle)->stated(read_views(leaves), read_list(sizes), asked.mode, asked.arch, asked.gradient));
    });
}

char* transfuse_ptx(const char* text, const char* options, char** error) {
    return guarded(error, static_cast<char*>(nullptr), [&] {
        std::vector<std::string> list;
        std::istringstream in(options);
        for (std::string line; std::getline(in, line);) list.push_back(line);
        return copy(cuda::nvrtc_ptx(text, list));
    });
}

char* transfuse_cuda_unavailable(void) {
    return guarded(nullptr, static_cast<char*>(nullptr),
                   [&] { return cuda_available() ? nullptr : copy(cuda_unavailable_reason()); });
}

char* transfuse_nvrtc_unavailable(void) {
    return guarded(nullptr, static_cast<char*>(nullptr), [&] {
        std::string reason;
        return cuda::nvrtc_available(&reason) ? nullptr : copy(reason);
    });
}

void transfuse_free(char* text) { std::free(text); }

}  // extern "C"
