#include "cuda/dense/read/epilogue.h"

#include <algorithm>
#include <map>

#include "cuda/dense/read/chain.h"
#include "cuda/dense/schedule/figures.h"
#include "cuda/kernel/expression.h"
#include "graph/has.h"
#include "transfuse/error.h"

namespace transfuse::cuda {

static bool is_sum(const Partial& p) { return p.reduction.op == Op::sum || p.reduction.op == Op::mean; }

Epilogue::Epilogue(const TileProgram& program, const Problem& problem)
    : program_(program), problem_(problem), reads_(program.reads), stores_(program.stores) {
    channels_ = problem.groups * problem.cout;
    const auto reads = [&](const Values& steps, ValueId value) {
        return std::any_of(steps.begin(), steps.end(), [&](ValueId step) {
            const Operands& args = graph()[step].args;
            return std::find(args.begin(), args.end(), value) != args.end();
        });
    };
    const auto used = [&](ValueId v) { return (v >= 0 && v == program.bias) || reads(program.steps, v); };
    const auto before = [&](ValueId v) { return reads(program.prologue, v); };
    const bool many_pixels = has_many_pixels(program), few_images = has_few_images(problem);
    for (auto* tables : {&table_of_, &image_table_of_, &prologue_table_of_}) tables->reserve(reads_.size());
    for (const Operand& o : reads_) {
        const bool small = used(o.value) && channels_ <= figures::most_table_entries && !o.depends[2] &&
                           !o.depends[3] && !o.depends[4];
        table_of_.push_back(small && !o.depends[0] ? tables_++ : -1);
        image_table_of_.push_back(small && o.depends[0] && many_pixels ? image_tables_++ : -1);
    }
    prologue_at_ = (tables_ * static_cast<int>(channels_) * problem.real_bytes() + 15) / 16 * 16;
    // The prologue has tables of its own, of input channels or, where images are few, of each image's. Their size in
    // the text does not change with the batch.
    const int64_t channels_in = problem.groups * problem.cin;
    int prologue_entries = 0;
    for (const Operand& o : reads_) {
        const bool small = before(o.value) && !o.depends[2] && !o.depends[3] && !o.depends[4] && o.depends[1] &&
                           (o.depends[0] ? few_images : channels_in <= figures::most_table_entries);
        prologue_table_of_.push_back(small ? prologue_entries : -1);
        if (small) prologue_entries += static_cast<int>(o.depends[0] ? figures::most_table_entries : channels_in);
    }
    slots_at_ = prologue_at_ + prologue_entries * problem.real_bytes();
    bool batch_kept = false;
    for (const GridReduction& g : program.grid) {
        Partial p;
        p.reduction = g;
        if (g.whole) {
            p.first_stat = stats_, p.stats = g.op == Op::logsumexp ? 2 : g.op == Op::var ? 3 : 1;
            stats_ += p.stats;
            batch_kept = batch_kept || !g.reduced[0];
        } else {
            for (const Partial& other : partials_)
                if (other.store >= 0 && other.reduction.of == g.of) p.store = other.store;
            if (p.store < 0) {
                Operand o;
                o.value = g.of, o.root = -1, o.dtype = problem.real_bytes() == 8 ? DType::f64 : DType::f32;
                place_kept(g, o);
                p.store = static_cast<int>(stores_.size());
                stores_.push_back(o);
            }
        }
        partials_.push_back(p);
    }
    int slots = stats_;
    for (Partial& p : partials_) {
        if (p.reduction.whole && p.reduction.op == Op::var) p.pivot = slots, slots += 3;
        if (p.reduction.whole && is_sum(p) && !derived(p)) p.rest = slots++;
    }
    per_tile_ = batch_kept;
    slots_at_ = (slots_at_ + 15) / 16 * 16;
    images_at_ = (slots * static_cast<int>(channels_) * problem.real_bytes() + 15) / 16 * 16;
    exchange_at_ = images_at_ + (image_tables_ * static_cast<int>(channels_) * problem.real_bytes() + 15) / 16 * 16;
}

bool Epilogue::has_many_pixels(const TileProgram& program) {
    const Sizes& grid = program.around->plan.graph[program.around->pass.anchor].type.shape;
    int64_t pixels = 1;
    for (size_t k = 2; k < grid.size(); ++k) pixels *= grid[k];
    return pixels >= figures::many_pixels;
}

bool Epilogue::has_few_images(const Problem& problem) {
    return problem.axes[0].in * problem.groups * problem.cin <= figures::most_table_entries;
}

// The value that a reduction is of, kept as it is.
void Epilogue::place_kept(const GridReduction& reduction, Operand& store) const {
    const Sizes& shape = graph()[reduction.of].type.shape;
    const Sizes strides = contiguous_strides(shape);
    for (size_t k = 0; k < shape.size(); ++k) {
        const size_t axis = k < 2 ? k : k + 3 - static_cast<size_t>(program_.spatial);
        store.strides[axis] = strides[k], store.depends[axis] = shape[k] > 1;
    }
}

bool Epilogue::derived(const Partial& p) const {
    return is_sum(p) && std::any_of(partials_.begin(), partials_.end(), [&](const Partial& other) {
               return other.reduction.whole && other.reduction.op == Op::var && other.reduction.of == p.reduction.of;
           });
}

std::vector<std::pair<int, std::string>> Epilogue::cleared_slots() const {
    std::vector<std::pair<int, std::string>> slots;
    for (const Partial& p : partials_) {
        for (int j = 0; j < p.stats && p.reduction.whole; ++j)
            slots.emplace_back(p.first_stat + j, j == 0 ? identity(p.reduction.op) : "0.f");
        if (p.rest >= 0) slots.emplace_back(p.rest, "0.f");
    }
    return slots;
}

std::string Epilogue::operands() const {
    Lines t;
    t.line("struct Operands {");
    for (size_t k = 0; k < reads_.size(); ++k)
        t.line("const " + std::string(storage_name(reads_[k].dtype)) + "* r" + num(static_cast<int64_t>(k)) +
               "; Strides rs" + num(static_cast<int64_t>(k)) + ";");
    for (size_t k = 0; k < stores_.size(); ++k)
        t.line(std::string(storage_name(stores_[k].dtype)) + "* y" + num(static_cast<int64_t>(k)) + "; Strides ys" +
               num(static_cast<int64_t>(k)) + ";");
    if (stats_) t.line("REAL* partial;");
    if (leaving_.maps) t.line("const TensorMap* out[" + num(leaving_.maps) + "];");
    if (!leaving_.added.empty())
        t.line("const TensorMap* added[" + num(static_cast<int64_t>(leaving_.added.size())) + "][" +
               num(leaving_.maps) + "];");
    t.line("};");
    return t.str();
}

std::string Epilogue::parameters() const {
    std::string p;
    for (size_t k = 0; k < reads_.size(); ++k)
        p += ", const " + std::string(storage_name(reads_[k].dtype)) + "* r" + num(static_cast<int64_t>(k)) +
             ", Strides rs" + num(static_cast<int64_t>(k));
    for (size_t k = 0; k < stores_.size(); ++k)
        p += ", " + std::string(storage_name(stores_[k].dtype)) + "* y" + num(static_cast<int64_t>(k)) +
             ", Strides ys" + num(static_cast<int64_t>(k));
    if (stats_) p += ", REAL* partial";
    for (int64_t k = 0; k < leaving_.maps; ++k) p += ", const __grid_constant__ TensorMap out_" + num(k);
    for (size_t j = 0; j < leaving_.added.size(); ++j)
        for (int64_t k = 0; k < leaving_.maps; ++k)
            p += ", const __grid_constant__ TensorMap added_" + num(static_cast<int64_t>(j)) + "_" + num(k);
    return p;
}

std::string Epilogue::operands_made() const {
    std::string p;
    for (size_t k = 0; k < reads_.size(); ++k)
        p += (p.empty() ? "r" : ", r") + num(static_cast<int64_t>(k)) + ", rs" + num(static_cast<int64_t>(k));
    for (size_t k = 0; k < stores_.size(); ++k)
        p += (p.empty() ? "y" : ", y") + num(static_cast<int64_t>(k)) + ", ys" + num(static_cast<int64_t>(k));
    if (stats_) p += p.empty() ? "partial" : ", partial";
    for (int64_t k = 0; k < leaving_.maps; ++k)
        p += (k > 0 ? ", &out_" : p.empty() ? "{&out_" : ", {&out_") + num(k) + (k + 1 == leaving_.maps ? "}" : "");
    for (size_t j = 0; j < leaving_.added.size(); ++j) {
        p += j == 0 ? ", {{" : ", {";
        for (int64_t k = 0; k < leaving_.maps; ++k)
            p += (k > 0 ? ", &added_" : "&added_") + num(static_cast<int64_t>(j)) + "_" + num(k);
        p += j + 1 == leaving_.added.size() ? "}}" : "}";
    }
    return "const Operands operands{" + p + "};";
}

void Epilogue::add_arguments(ArgumentList& list, int64_t partial_at, const std::vector<int64_t>& kept_at) const {
    for (const Operand& o : reads_) {
        list.push_back(Argument::of_value(o.root, o.offset * bytes(o.dtype)));
        list.push_back(Argument::of(o.strides));
    }
    size_t kept = 0;
    for (const Operand& o : stores_) {
        list.push_back(o.root < 0 ? Argument::of_scratch(kept_at[kept++])
                                  : Argument::of_value(o.root, o.offset * bytes(o.dtype)));
        list.push_back(Argument::of(o.strides));
    }
    if (stats_) list.push_back(Argument::of_scratch(partial_at));
}

namespace {

// What is done to an input's elements while they are loaded.
class PrologueWriter {
public:
    PrologueWriter(const Epilogue& epilogue, int table_at, bool one_image)
        : epilogue_(epilogue),
          program_(epilogue.program()),
          graph_(epilogue.graph()),
          table_at_(table_at),
          one_image_(one_image),
          names_{{program_.input.value, "x"}} {}

    std::string text() {
        Lines held, fetched;
        const bool placed = of_channel(held, fetched);
        t.line("constexpr bool PROLOGUE = " + std::string(program_.prologue.empty() ? "false" : "true") + ";");
        t.line("constexpr bool PROLOGUE_PLACED = " + std::string(placed ? "true" : "false") +
               ";   // it reads what differs from pixel to pixel");
        t.line("struct OfChannel {");
        t.line(held.str());
        t.line("};");
        t.line(
            "static __device__ __forceinline__ OfChannel of_channel(int channel, int image, const unsigned char* "
            "shared, const Operands& operands) {");
        t.line("OfChannel c;");
        t.line("(void)channel, (void)image, (void)shared, (void)operands;");
        t.line(fetched.str());
        t.line("return c;");
        t.line("}");
        t.line(
            "static __device__ __forceinline__ REAL prologue(REAL x, const OfChannel& c, int channel, const Pixel& at, "
            "const unsigned char* shared, const Operands& operands) {");
        t.line("(void)c, (void)channel, (void)at, (void)shared, (void)operands;");
        for (ValueId v : program_.prologue) step(v);
        t.line("return " + (program_.prologue.empty() ? std::string("x") : "v" + num(program_.prologue.back())) + ";");
        t.line("}");
        return t.str();
    }

private:
    // What it reads for a channel, of an image where a patch lies in one: fetched once for many pixels. True where it
    // reads something else besides.
    bool of_channel(Lines& held, Lines& fetched) {
        bool placed = false;
        for (size_t k = 0; k < epilogue_.reads().size(); ++k) {
            const Operand& o = epilogue_.reads()[k];
            const bool read = std::any_of(program_.prologue.begin(), program_.prologue.end(),
                                          [&](ValueId v) { return has(graph_[v].args, o.value); });
            if (!read || o.value == program_.input.value || names_.count(o.value)) continue;
            if (o.depends[2] || o.depends[3] || o.depends[4] || (o.depends[0] && !one_image_)) {
                placed = true;
                continue;
            }
            const std::string name = "r" + num(o.value), id = num(static_cast<int64_t>(k));
            held.line("REAL " + name + ";");
            fetched.line("c." + name + " = " +
                         (has_table(k) ? from_table(k, "image")
                                       : "tf_load<REAL>(operands.r" + id + " + (0ll" +
                                             (o.depends[0] ? " + image * operands.rs" + id + ".n" : "") +
                                             (o.depends[1] ? " + channel * operands.rs" + id + ".c" : "") + "))") +
                         ";");
            names_[o.value] = "c." + name;
        }
        return placed;
    }

    void step(ValueId v) {
        std::vector<std::string> args;
        for (ValueId a : graph_[v].args) {
            if (is_literal(graph_, a)) {
                args.push_back(literal(graph_[a].attributes.number(Key::value), epilogue_.real()));
                continue;
            }
            for (size_t k = 0; k < epilogue_.reads().size() && !names_.count(a); ++k)
                if (epilogue_.reads()[k].value == a) load(k);
            require(names_.count(a) > 0, "dense prologue: value %", a, " is neither a step nor a read of the pass");
            args.push_back(names_[a]);
        }
        t.line("const REAL v" + num(v) + " = " + expression(graph_[v], args, epilogue_.real()) + ";");
        names_[v] = "v" + num(v);
    }

    // A read of one pixel.
    void load(size_t k) {
        const Operand& o = epilogue_.reads()[k];
        const std::string name = "r" + num(o.value), id = num(static_cast<int64_t>(k));
        names_[o.value] = name;
        if (has_table(k)) return t.line("const REAL " + name + " = " + from_table(k, "at.at[0]") + ";");
        static const char* coordinate[5] = {"at.at[0]", "channel", "at.at[1]", "at.at[2]", "at.at[3]"};
        static const char* stride[5] = {"n", "c", "d", "h", "w"};
        std::string at = "0ll";
        for (size_t i = 0; i < 5; ++i)
            if (o.depends[i]) at += std::string(" + ") + coordinate[i] + " * operands.rs" + id + "." + stride[i];
        t.line("const REAL " + name + " = tf_load<REAL>(operands.r" + id + " + (" + at + "));");
    }

    bool has_table(size_t k) const { return epilogue_.prologue_tables()[k] >= 0; }
    std::string from_table(size_t k, const std::string& n) const {
        const Problem& problem = epilogue_.problem();
        return "((const REAL*)(shared + TABLES_AT + " + num(table_at_) + "))[" + num(epilogue_.prologue_tables()[k]) +
               (epilogue_.reads()[k].depends[0] ? " + " + n + " * " + num(problem.groups * problem.cin) : "") +
               " + channel]";
    }

    const Epilogue& epilogue_;
    const TileProgram& program_;
    const Graph& graph_;
    const int table_at_;
    const bool one_image_;
    std::map<ValueId, std::string> names_;
    Lines t;
};

}  // namespace

std::string Epilogue::prologue(bool one_image) const { return PrologueWriter(*this, prologue_at_, one_image).text(); }

std::string Epilogue::tables() const {
    Lines t;
    for (size_t k = 0; k < reads_.size(); ++k) {
        if (table_of_[k] < 0) continue;
        const std::string id = num(static_cast<int64_t>(k));
        t.line("for (int c = t; c < " + num(channels_) + "; c += THREADS) ((REAL*)(shared + TABLES_AT))[" +
               num(table_of_[k] * channels_) + " + c] = tf_load<REAL>(r" + id +
               (reads_[k].depends[1] ? " + c * rs" + id + ".c" : "") + ");");
    }
    const std::string channels_in = num(problem_.groups * problem_.cin);
    for (size_t k = 0; k < reads_.size(); ++k) {
        if (prologue_table_of_[k] < 0) continue;
        const std::string id = num(static_cast<int64_t>(k)), images = reads_[k].depends[0] ? "s.in[0] * " : "";
        t.line("for (int c = t; c < " + images + channels_in + "; c += THREADS) ((REAL*)(shared + TABLES_AT + " +
               num(prologue_at_) + "))[" + num(prologue_table_of_[k]) + " + c] = tf_load<REAL>(r" + id +
               (reads_[k].depends[0]
                    ? " + c / " + channels_in + " * rs" + id + ".n + c % " + channels_in + " * rs" + id + ".c"
                    : " + c * rs" + id + ".c") +
               ");");
    }
    for (const auto& [slot, value] : cleared_slots())
        t.line("for (int c = t; c < " + num(channels_) +
               "; c += THREADS) for (int g = 0; g < STORE_GROUPS; g++) ((REAL*)(shared + TABLES_AT + " +
               num(slots_at_) + " + g * " + num(group_bytes()) + "))[" + num(slot * channels_) + " + c] = " + value +
               ";");
    return t.str();
}

}  // namespace transfuse::cuda
