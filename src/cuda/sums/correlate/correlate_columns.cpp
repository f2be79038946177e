// A weight gradient where one operand has few channels: these and their taps are the columns of one product with the
// other operand, over positions of the latter as they lie. What a column meets at a position is fetched from where its
// tap leads.
#include "cuda/kernel/product_code.h"
#include "cuda/sums/correlate/correlate_writer.h"

namespace transfuse::cuda {

namespace {

constexpr int64_t depth = CorrelateShape::depth, pitch = CorrelateShape::pitch;

class ColumnsWriter : CorrelateWriter {
public:
    ColumnsWriter(const Surroundings& s, const Places& places, const CorrelateShape& shape)
        : CorrelateWriter(s, places, shape), axes_(shape.outer) {
        axes_.push_back(shape.row);
    }

    Launch write() {
        write_body();
        return launch(
            "tf_correlate_columns", CorrelateShape::threads,
            shape_.strict() ? ", columns, 3 x TF32" : ", columns, TF32",
            product_code(shape_.strict()) +
                "\n#ifdef __CUDACC_RTC__\nextern __shared__ __align__(16) float tf_tiles[];\n#else\nstatic float "
                "tf_tiles[" +
                number(shape_.shared_bytes() / 4) + "];\n#endif\n",
            2);
    }

private:
    int64_t warps_n() const { return 8 / (shape_.rows / 32); }
    int64_t fragments() const { return shape_.columns / warps_n() / 8; }
    int64_t table_row() const { return static_cast<int64_t>(axes_.size()) + 1; }
    ValueId many() const { return shape_.gathers_x ? shape_.g : shape_.x; }
    ValueId few() const { return shape_.gathers_x ? shape_.x : shape_.g; }
    int64_t many_channels() const { return shape_.sizes[shape_.gathers_x ? 2 : 1]; }
    int64_t few_channels() const { return shape_.sizes[shape_.gathers_x ? 1 : 2]; }
    int64_t all_columns() const { return few_channels() * shape_.all_taps(); }
    int64_t many_extent(size_t axis) const { return shape_.gathers_x ? axes_[axis].out : axes_[axis].in; }
    int64_t few_extent(size_t axis) const { return shape_.gathers_x ? axes_[axis].in : axes_[axis].out; }

    void write_body() {
        body_.line("TF_SEQUENCE();");
        body_.line("float* const many = tf_tiles;  // [stage][channel][position]");
        body_.line("float* const few = tf_tiles + " + number(2 * shape_.rows * pitch) +
                   ";  // [stage][column][position]");
        body_.line("int* const table = (int*)(tf_tiles + " + number(2 * (shape_.rows + shape_.columns) * pitch) +
                   ");  // of each column its channel and where its tap leads");
        take_block();
        take_lane();
        warp_ = let("(int)threadIdx.x / 32", "warp");
        warp_row_ = let("(" + warp_ + " / " + number(warps_n()) + ") * 32", "warp_row");
        warp_column_ = let("(" + warp_ + " % " + number(warps_n()) + ") * " + number(fragments() * 8), "warp_column");
        write_table();
        body_.line("float sums[2][" + number(fragments()) + "][4] = {};");
        if (!shape_.strict()) body_.line("float totals[2][" + number(fragments()) + "][4] = {};");
        body_.line("float next_many[" + number(shape_.rows / 8) + "], next_few[" + number(shape_.columns / 8) + "];");
        body_.line("int stage = 0;");
        // Step -1 only loads.
        emitter_.open("for (int p = " + begin_ + " - " + number(depth) + "; p < " + end_ + "; p += " + number(depth) +
                      ")");
        load();
        multiply();
        body_.line("stage ^= 1;");
        keep("many", "next_many", shape_.rows);
        keep("few", "next_few", shape_.columns);
        body_.line("__syncthreads();");
        emitter_.close();
        store();
    }

    void take_block() {
        std::string rest = "(int)blockIdx.x";
        auto take = [&](int64_t extent, std::string_view prefix) {
            if (extent == 1) return std::string("0");
            const std::string q = let(parameters_.quotient(rest, extent, false), "q"),
                              r = let(parameters_.remainder(rest, q, extent, false), prefix);
            rest = q;
            return r;
        };
        // Columns of one slice side by side: they read the same pixels.
        first_column_ = times(take(shape_.column_tiles, "columns"), number(shape_.columns));
        first_row_ = times(take(shape_.row_tiles, "rows"), number(shape_.rows));
        group_ = take(shape_.sizes[0], "group");
        slice_ = let(rest, "slice");
        positions_ = integer(shape_.batch);
        for (size_t i = 0; i < axes_.size(); ++i) positions_ = times(positions_, integer(many_extent(i)));
        positions_ = let(positions_, "positions");
        begin_ = let(times(slice_, integer(shape_.slice)), "begin");
        end_ = let("min(" + begin_ + " + " + integer(shape_.slice) + ", " + positions_ + ")", "end");
    }

    // i = down·o + (offset − dil·k), or o = up·i + (dil·k − offset); a channel of −1: no such column.
    void write_table() {
        emitter_.open("for (int c = (int)threadIdx.x; c < " + number(shape_.columns) +
                      "; c += " + number(CorrelateShape::threads) + ")");
        const std::string column = let(plus(first_column_, "c"), "column"),
                          channel = let(column + " / " + number(shape_.all_taps()), "channel");
        std::string rest = let(column + " - " + channel + " * " + number(shape_.all_taps()), "tap");
        const std::string to = "table[c * " + number(table_row()) + " + ";
        body_.line(to + "0] = " + channel + " < " + number(few_channels()) + " ? " + channel + " : -1;");
        for (size_t i = axes_.size(); i-- > 0;) {
            const Lattice& axis = axes_[i];
            const std::string q = let(rest + " / " + number(axis.taps), "q");
            const std::string k = let(rest + " - " + q + " * " + number(axis.taps), "k");
            rest = q;
            const std::string reach = times(k, number(axis.dil)), offset = integer(axis.offset);
            body_.line(to + number(static_cast<int64_t>(i) + 1) +
                       "] = " + (shape_.gathers_x ? offset + " - " + reach : reach + " - " + offset) + ";");
        }
        emitter_.close();
        body_.line("__syncthreads();");
    }

    void load() {
        zero("next_many", shape_.rows / 8), zero("next_few", shape_.columns / 8);
        const std::string position = let("p + " + number(depth) + " + " + lane_, "position");
        emitter_.open("if (" + position + " < " + end_ + ")");
        std::vector<std::string> at(axes_.size());
        std::string rest = position;
        for (size_t i = axes_.size(); i-- > 0;) {
            const std::string q = let(parameters_.quotient(rest, many_extent(i), true), "q");
            at[i] = let(rest + " - " + q + " * " + integer(many_extent(i)), "at");
            rest = q;
        }
        Index index(axes_.size() + 2);
        index[0] = {rest};
        load_many(index, at);
        load_few(index, at);
        emitter_.close();
    }

    void load_many(Index index, const std::vector<std::string>& at) {
        for (size_t i = 0; i < axes_.size(); ++i) index[i + 2] = {at[i]};
        const std::string first = unhoisted(plus(first_row_, warp_));
        body_.line("#pragma unroll");
        emitter_.open("for (int j = 0; j < " + number(shape_.rows / 8) + "; ++j)");
        const std::string channel = let(first + " + j * 8", "channel");
        const bool whole = many_channels() % shape_.rows == 0;
        emitter_.open(whole ? "" : "if (" + channel + " < " + number(many_channels()) + ")");
        index[1] = {let(plus(times(group_, number(many_channels())), channel), "c")};
        body_.line("next_many[j] = (float)" + emitter_.value(many(), index).text[0] + ";");
        emitter_.close();
        emitter_.close();
    }

    void load_few(Index index, const std::vector<std::string>& at) {
        std::vector<std::string> from;
        for (size_t i = 0; i < axes_.size(); ++i)
            from.push_back(let(times(at[i], number(shape_.gathers_x ? axes_[i].down : axes_[i].up)), "from"));
        body_.line("#pragma unroll");
        emitter_.open("for (int j = 0; j < " + number(shape_.columns / 8) + "; ++j)");
        body_.line("const int* const column = table + (" + warp_ + " + j * 8) * " + number(table_row()) + ";");
        std::string inside = "column[0] >= 0";
        for (size_t i = 0; i < axes_.size(); ++i) {
            const std::string to = let(plus(from[i], "column[" + number(static_cast<int64_t>(i) + 1) + "]"), "to");
            inside += " && " + to + " >= 0 && " + to + " < " + integer(few_extent(i));
            index[i + 2] = {to};
        }
        emitter_.open("if (" + inside + ")");
        index[1] = {let(plus(times(group_, number(few_channels())), "column[0]"), "c")};
        body_.line("next_few[j] = (float)" + emitter_.value(few(), index).text[0] + ";");
        emitter_.close();
        emitter_.close();
    }

    void zero(const std::string& name, int64_t count) {
        body_.line("#pragma unroll");
        body_.line("for (int j = 0; j < " + number(count) + "; ++j) " + name + "[j] = 0.0f;");
    }

    void keep(const std::string& to, const std::string& from, int64_t tile) {
        body_.line("#pragma unroll");
        const std::string value = from + "[j]";
        body_.line("for (int j = 0; j < " + number(tile / 8) + "; ++j) " + to + "[(stage * " + number(tile) + " + " +
                   warp_ + " + j * 8) * " + number(pitch) + " + " + lane_ +
                   "] = " + (shape_.strict() ? value : "__uint_as_float(tf_tf32(" + value + "))") + ";");
    }

    void multiply() {
        emitter_.open("if (p >= " + begin_ + ")");
        const std::string count = number(fragments());
        body_.line("const float* const left = many + (stage * " + number(shape_.rows) + " + " + warp_row_ + " + " +
                   eight_ + ") * " + number(pitch) + " + " + four_ + ";");
        body_.line("const float* const right = few + (stage * " + number(shape_.columns) + " + " + warp_column_ +
                   " + " + eight_ + ") * " + number(pitch) + " + " + four_ + ";");
        body_.line("#pragma unroll");
        emitter_.open("for (int k = 0; k < " + number(depth) + "; k += 8)");
        body_.line("float a[2][4], b[" + count + "][2];");
        body_.line("for (int m = 0; m < 2; ++m) for (int i = 0; i < 4; ++i) a[m][i] = left[(m * 16 + i % 2 * 8) * " +
                   number(pitch) + " + k + i / 2 * 4];");
        body_.line("for (int n = 0; n < " + count + "; ++n) for (int i = 0; i < 2; ++i) b[n][i] = right[n * 8 * " +
                   number(pitch) + " + k + i * 4];");
        const std::string each = "for (int m = 0; m < 2; ++m) for (int n = 0; n < " + count + "; ++n)";
        if (shape_.strict()) {
            body_.open(each);
            body_.line("float part[4] = {0.0f, 0.0f, 0.0f, 0.0f};");
            body_.line("tf_product(part, a[m], b[n]);");
            body_.line("for (int c = 0; c < 4; ++c) sums[m][n][c] += part[c];");
            body_.close();
        } else {
            body_.line(each + " tf_product(sums[m][n], a[m], b[n]);");
        }
        emitter_.close();
        if (!shape_.strict()) {
            body_.open("if (" + chain_ends("p") + ")");
            each_sum("totals[m][n][c] += sums[m][n][c], sums[m][n][c] = 0.0f;");
            body_.close();
        }
        emitter_.close();
    }

    void each_sum(const std::string& what) {
        body_.line("for (int m = 0; m < 2; ++m) for (int n = 0; n < " + number(fragments()) +
                   "; ++n) for (int c = 0; c < 4; ++c) " + what);
    }

    void store() {
        if (!shape_.strict()) each_sum("sums[m][n][c] += totals[m][n][c];");
        const std::string pointer = parameters_.pointer(Argument::of_scratch(0), "float", false);
        const std::string to = emitter_.let("long long",
                                            "(long long)" + slice_ + " * " + integer(numel(shape_.sizes)) + " + " +
                                                times(group_, number(many_channels() * all_columns())),
                                            "to");
        body_.line("for (int m = 0; m < 2; ++m) for (int n = 0; n < " + number(fragments()) +
                   "; ++n) for (int c = 0; c < 4; ++c) {");
        body_.line("    const int row = " + plus(first_row_, warp_row_) + " + m * 16 + " + eight_ + " + c / 2 * 8;");
        body_.line("    const int column = " + plus(first_column_, warp_column_) + " + n * 8 + 2 * " + four_ +
                   " + c % 2;");
        body_.line("    if (row < " + number(many_channels()) + " && column < " + number(all_columns()) + ") " +
                   pointer + "[" + to + " + row * " + number(all_columns()) + " + column] = sums[m][n][c];");
        body_.line("}");
    }

    Lattices axes_;
    std::string first_row_, first_column_, warp_, warp_row_, warp_column_;
};

}  // namespace

Launch correlate_by_columns(const Surroundings& s, const Places& places, const CorrelateShape& shape) {
    return ColumnsWriter(s, places, shape).write();
}

}  // namespace transfuse::cuda
