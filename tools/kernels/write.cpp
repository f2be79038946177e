// Every kernel that graphs are given, as text, without a GPU: for tools/kernels.sh, which compares those of two
// commits.
//
//   write GRAPHS OUT ARCH      assembles each graph of GRAPHS in every setting it names
//   write ptx OUT ARCH < LIST  the PTX of texts: lines of "FILE NAME OPTIONS…", each to OUT/NAME.ptx
//
// It is compiled beside either commit, so it asks for little: parse, rewrite, plan, assemble.
//
// A graph's file begins with comments: "# name WORDS", "# gradient OUTPUTS : LEAVES" (positions; without it there is no
// backward), and one "# setting DTYPE PRECISION [last] [unaligned] [later] [trial]" each. last: channels last. later:
// texts that serve any size. trial: planned as tests/gpu plans what it tries.
//
// OUT/texts/HASH.cu are the texts, OUT/launches-ARCH.txt says of every plan which text each launch has, and with what.
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>

#include "cuda/assemble/assemble.h"
#include "cuda/runtime/nvrtc.h"
#include "transfuse/error.h"
#include "transfuse/transfuse.h"

using namespace transfuse;
using namespace transfuse::cuda;
namespace fs = std::filesystem;

namespace {

struct Setting {
    DType dtype = DType::f32;
    Fp32Precision precision = Fp32Precision::strict;
    bool last = false, unaligned = false, later = false, trial = false;
    std::string words;
};

struct Case {
    std::string name;
    Graph graph;
    GradientRequest gradient;
    std::vector<Setting> settings;
};

DType dtype_named(const std::string& word) {
    for (DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64})
        if (name(dtype) == word) return dtype;
    fail("there is no dtype '", word, "'");
}

Setting setting_of(const std::string& words) {
    Setting setting;
    setting.words = words;
    std::istringstream stream(words);
    std::string word;
    stream >> word;
    setting.dtype = dtype_named(word);
    while (stream >> word) {
        if (word == "tf32") setting.precision = Fp32Precision::tf32;
        if (word == "last") setting.last = true;
        if (word == "unaligned") setting.unaligned = true;
        if (word == "later") setting.later = true;
        if (word == "trial") setting.trial = true;
    }
    return setting;
}

Case read(const fs::path& file) {
    std::stringstream all;
    all << std::ifstream(file).rdbuf();
    Case c;
    for (std::string line; std::getline(all, line) && line.starts_with("# ");) {
        std::istringstream words(line.substr(2));
        std::string what, rest;
        words >> what;
        std::getline(words >> std::ws, rest);
        if (what == "name") c.name = rest;
        if (what == "setting") c.settings.push_back(setting_of(rest));
        if (what == "gradient") {
            std::istringstream list(rest);
            std::vector<ValueId>* to = &c.gradient.outputs;
            for (std::string word; list >> word;)
                if (word == ":")
                    to = &c.gradient.wrt;
                else
                    to->push_back(std::stoi(word));
        }
    }
    c.graph = parse(all.str());
    return c;
}

Graph of_dtype(const Graph& graph, DType dtype) {
    std::vector<Type> types;
    for (ValueId leaf : graph.leaves()) {
        types.push_back(graph[leaf].type);
        types.back().dtype = dtype;
    }
    return dtype == DType::f32 ? graph : graph.with_leaf_types(types);
}

Sizes strides(const Sizes& shape, bool last) {
    Sizes result(shape.size());
    int64_t next = 1;
    const auto lay = [&](size_t axis) { result[axis] = next, next *= std::max<int64_t>(shape[axis], 1); };
    last &= shape.size() > 2;
    if (last) lay(1);
    for (size_t axis = shape.size(); axis-- > 0;)
        if (!last || axis != 1) lay(axis);
    return result;
}

class Hash {
public:
    Hash& operator()(const void* data, size_t size) {
        for (size_t i = 0; i < size; ++i)
            value_ = (value_ ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001b3u;
        return *this;
    }
    template <class T>
    Hash& operator()(const T& plain) {
        return (*this)(&plain, sizeof plain);
    }
    std::string str() const {
        char text[20];
        std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value_));
        return text;
    }

private:
    unsigned long long value_ = 0xcbf29ce484222325u;
};

// Addresses stand for the values they belong to: numbers of values may change, and nothing with them.
std::string arguments_of(const BoundLaunch& bound) {
    Hash hash;
    for (const Address& address : bound.addresses) hash(address.kind)(address.position)(address.offset);
    for (const Argument& argument : bound.launch.arguments) {
        hash(argument.kind)(argument.offset)(argument.size);
        if (argument.kind == Argument::Kind::boxes) {
            TmaTensor tensor;
            std::memcpy(&tensor, argument.data.data(), sizeof tensor);
            hash(tensor.dtype)(tensor.rounds_to_tf32)(tensor.swizzle)(tensor.extent)(tensor.box)(tensor.stride);
        } else if (argument.kind == Argument::Kind::bytes) {
            hash(argument.data.data(), static_cast<size_t>(argument.size));
        }
    }
    return hash.str().substr(0, 8);
}

class Writer {
public:
    Writer(fs::path out, const Target& target) : out_(std::move(out)), target_(target) {
        fs::create_directories(out_ / "texts");
        launches_.open(out_ / ("launches-" + std::to_string(target.arch) + ".txt"));
    }

    void write(const Case& c) {
        for (const Setting& setting : c.settings) {
            Graph graph, inference, training;
            const std::string what = c.name + " " + setting.words;
            RewriteOptions rules;
            if (!setting.trial) rules.prices = Machine::h200().prices;
            guarded(what, [&] {
                graph = of_dtype(c.graph, setting.dtype);
                inference = rewrite(graph, rules).rewritten;
                assembled(what, inference, setting, nullptr);
            });
            if (c.gradient.wrt.empty()) continue;
            guarded(what + " training", [&] {
                rules.inference = false;
                training = rewrite(graph, rules).rewritten;
                if (!(training == inference)) assembled(what + " training", training, setting, nullptr);
            });
            guarded(what + " backward",
                    [&] { assembled(what + " backward", derive_gradient(graph, c.gradient).rewritten, setting, &c); });
        }
    }
    size_t plans() const { return plans_; }

private:
    template <class F>
    void guarded(const std::string& what, const F& f) {
        try {
            f();
        } catch (const std::exception& error) {
            launches_ << "[" << what << "]\nnot possible: " << with_spaces(error.what()) << "\n";
        }
    }
    static std::string with_spaces(std::string text) {
        std::replace(text.begin(), text.end(), '\n', ' ');
        return text;
    }

    // of: whose gradient it is, in the order of its request; null: none.
    void assembled(const std::string& what, const Graph& rewritten, const Setting& setting, const Case* of) {
        Plan planned = plan(rewritten, Machine::h200());
        if (setting.trial) planned.machine.launch = 0;
        CompileOptions options;
        options.precision = setting.precision;
        for (ValueId leaf : planned.graph.leaves())
            options.leaf_strides.push_back(
                strides(planned.graph[leaf].type.shape, setting.last && planned.graph[leaf].op == Op::input));
        for (size_t o = 0; o < planned.graph.outputs().size(); ++o) {
            const Graph* leaves = of ? &of->graph : nullptr;
            const bool input =
                !leaves || (*leaves)[leaves->leaves()[static_cast<size_t>(of->gradient.wrt[o])]].op == Op::input;
            options.output_strides.push_back(
                strides(planned.graph[planned.graph.outputs()[o]].type.shape, setting.last && input));
        }
        Target target = target_;
        target.any_size = setting.later;
        const Assembly assembly = assemble(planned, options, target, !setting.unaligned);
        std::ostringstream section;
        section << "[" << what << "]\n";
        for (const BoundLaunch& bound : assembly.launches) {
            const Launch& l = bound.launch;
            const std::string text = l.source->text;
            const std::string name = Hash()(text.data(), text.size()).str();
            if (met_.insert(name).second) std::ofstream(out_ / "texts" / (name + ".cu")) << text;
            section << name << " " << l.source->entry << " " << l.grid[0] << "," << l.grid[1] << "," << l.grid[2]
                    << " x " << l.block[0] << "," << l.block[1] << "," << l.block[2] << " cluster " << l.cluster
                    << " shared " << l.shared_bytes << (l.early ? " early" : "") << (l.parameters_only ? " once" : "")
                    << " arguments " << arguments_of(bound);
            for (const std::string& option : l.source->options) section << " " << option;
            section << "\n";
        }
        section << "workspace " << assembly.workspace_bytes << " kept " << assembly.kept_bytes << "\n";
        launches_ << section.str();
        ++plans_;
    }

    const fs::path out_;
    std::ofstream launches_;
    const Target target_;
    std::set<std::string> met_;
    size_t plans_ = 0;
};

int ptx(const fs::path& out, int arch) {
    fs::create_directories(out);
    for (std::string line; std::getline(std::cin, line);) {
        std::istringstream words(line);
        std::string file, name;
        words >> file >> name;
        std::string virtual_arch = arch_option(arch);  // no machine code is made of it
        virtual_arch.replace(0, 2, "compute");
        std::vector<std::string> options = {"-arch=" + virtual_arch, "-std=c++17", "-default-device",
                                            "--extra-device-vectorization", "-diag-suppress=177"};
        for (std::string word; words >> word;) options.push_back(word);
        std::stringstream text;
        text << std::ifstream(file).rdbuf();
        std::string code;
        try {
            code = nvrtc_ptx(text.str(), options);
        } catch (const std::exception& error) {
            code = std::string("does not compile: ") + error.what();
        }
        std::ofstream(out / (name + ".ptx")) << code;
    }
    return 0;
}

}  // namespace

int main(int count, char** words) {
    const std::vector<std::string> given(words + 1, words + count);
    if (given.size() == 3 && given[0] == "ptx") return ptx(given[1], std::stoi(given[2]));
    if (given.size() != 3) {
        std::fprintf(stderr, "write GRAPHS OUT ARCH | write ptx OUT ARCH\n");
        return 2;
    }
    Target target;
    target.arch = std::stoi(given[2]);
    if (target.arch == 80) target.multiprocessors = 108, target.shared_bytes = 163 * 1024;
    Writer writer(given[1], target);
    std::set<fs::path> files;
    for (const auto& entry : fs::directory_iterator(given[0])) files.insert(entry.path());
    for (const fs::path& file : files) writer.write(read(file));
    return writer.plans() > 0 ? 0 : 1;
}
