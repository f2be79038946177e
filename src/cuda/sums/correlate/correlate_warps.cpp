// A weight gradient by warps: each has a part of the block's tile of channels (mma.sync). Numbers on their way to
// shared memory wait in registers while the step before is multiplied.
#include "cuda/kernel/product_code.h"
#include "cuda/sums/correlate/correlate_writer.h"
#include "cuda/sums/correlate/figures.h"

namespace transfuse::cuda {

using namespace figures::correlate;

namespace {

constexpr int64_t depth = CorrelateShape::depth, pitch = CorrelateShape::pitch, ring = CorrelateShape::ring,
                  ring_pitch = CorrelateShape::ring_pitch;
constexpr int64_t registers_of_processor = 65536;

class WarpsWriter : CorrelateWriter {
public:
    using CorrelateWriter::CorrelateWriter;

    Launch write() {
        write_body();
        return launch(
            "tf_correlate", CorrelateShape::threads, shape_.strict() ? ", 3 x TF32" : ", TF32",
            product_code(shape_.strict()) +
                "\n#ifdef __CUDACC_RTC__\nextern __shared__ __align__(16) float tf_tiles[];\n#else\nstatic float "
                "tf_tiles[" +
                number(shape_.shared_bytes() / 4) + "];\n#endif\n",
            totals() ? resident() : 0);
    }

private:
    std::string staged(const std::string& value) const {
        return shape_.strict() ? value : "__uint_as_float(tf_tf32(" + value + "))";
    }

    void write_body() {
        body_.line("TF_SEQUENCE();");
        body_.line("float* const turned = tf_tiles;");
        body_.line("float* const still = tf_tiles + " + number(shape_.turned_tile() * ring_pitch) + ";");
        take_block();
        take_thread();
        take_turns();
        body_.line("float sums[" + number(turns()) + "][2][" + number(shape_.fragments()) + "][4] = {};");
        if (totals())
            body_.line("float totals[" + number(turns()) + "][2][" + number(shape_.fragments()) + "][4] = {};");
        body_.line("float next_turned[" + number(loads(turned_)) + "], next_still[" + number(planes()) + "][" +
                   number(loads(still_)) + "];");
        const Seen turned_at = declare("turned"), still_at = declare("still");
        // Before the first step: what its turns see, but for the last chunk, which the loop's own first load brings.
        const int64_t ahead = shape_.ahead();
        for (int64_t c = 0; c < ahead; ++c) {
            emitter_.open("");
            find(turned_at, turned_, plus(plus(begin_, number(c * depth)), least_turn_));
            load(turned_at, turned_, turned_residue_, "next_turned", warp_);
            keep_turned(number(c * depth));
            emitter_.close();
        }
        body_.line("int stage = 0;");
        write_steps(ahead, turned_at, still_at);
        if (totals()) each_sum([&](const std::string& at) { body_.line("sums" + at + " += totals" + at + ";"); });
        store();
    }

    int64_t sums() const { return turns() * 8 * shape_.fragments(); }  // of a thread
    // Strict sums are added with rounding at every product.
    bool totals() const {
        return !shape_.strict() && 2 * sums() + loads(turned_) + planes() * loads(still_) <= most_held;
    }
    // As many blocks of a multiprocessor as there would be without totals, which are seldom met.
    int64_t resident() const {
        return std::clamp<int64_t>(registers_of_processor / CorrelateShape::threads / (sums() + beside_sums), 1, 3);
    }

    template <class Do>
    void each_sum(Do what) {
        body_.line("#pragma unroll");
        body_.open("for (int t = 0; t < " + number(turns()) + "; ++t)");
        body_.line("for (int m = 0; m < 2; ++m) for (int n = 0; n < " + number(shape_.fragments()) + "; ++n)");
        body_.open("    for (int c = 0; c < 4; ++c)");
        what("[t][m][n][c]");
        body_.close();
        body_.close();
    }

    void take_thread() {
        take_lane();
        warp_ = let("(int)threadIdx.x / 32", "warp");
        const std::string warps_n = number(shape_.warps_n());
        warp_row_ = let("(" + warp_ + " / " + warps_n + ") * 32", "warp_row");
        warp_column_ = let("(" + warp_ + " % " + warps_n + ") * " + number(shape_.warp_columns()), "warp_column");
    }

    // Step -1 only loads: the loop body loads the next step's positions, multiplies this one's, and hands over.
    void write_steps(int64_t ahead, const Seen& turned_at, const Seen& still_at) {
        emitter_.open("for (int p = " + begin_ + " - " + number(depth) + "; p < " + end_ + "; p += " + number(depth) +
                      ")");
        const std::string from = let("p - " + begin_, "from");
        find(turned_at, turned_, plus("p + " + number((ahead + 1) * depth), least_turn_));
        load(turned_at, turned_, turned_residue_, "next_turned", warp_);
        find(still_at, still_, "p + " + number(depth));
        for (int64_t s = 0; s < planes(); ++s)
            load(still_at, still_, residues_[static_cast<size_t>(s)], "next_still[" + number(s) + "]", warp_);
        multiply_step(from);
        body_.line("stage ^= 1;");
        keep_turned("(" + from + " + " + number((ahead + 1) * depth) + ")");
        keep_still();
        body_.line("__syncthreads();");
        emitter_.close();
    }

    void multiply_step(const std::string& from) {
        emitter_.open("if (p >= " + begin_ + ")");
        body_.line("const float* const here = still + stage * " + number(shape_.still_floats()) + ";");
        body_.line("#pragma unroll");
        emitter_.open("for (int k = 0; k < " + number(depth) + "; k += 8)");
        const std::string column = four_ + " + k", mask = number(ring - 1);
        int64_t turn = 0;
        for (size_t s = 0; s < taps_.planes(); ++s) {
            emitter_.open("");
            const std::string plane = number(static_cast<int64_t>(s) * shape_.still_tile() * pitch);
            fragment(still_, [&](const std::string& row, const std::string& half) {
                return "here[" + plus(plane, "(" + row + ") * " + number(pitch)) + " + " + column + " + " + half +
                       " * 4]";
            });
            for (size_t r = 0; r < turns_of(s); ++r, ++turn) {
                emitter_.open("");
                const std::string at = from + " + " + turned_by_[static_cast<size_t>(turn)] + " + " + column;
                body_.line("const int at[2] = {(" + at + ") & " + mask + ", (" + at + " + 4) & " + mask + "};");
                fragment(turned_, [&](const std::string& row, const std::string& half) {
                    return "turned[(" + row + ") * " + number(ring_pitch) + " + at[" + half + "]]";
                });
                multiply(turn);
                emitter_.close();
            }
            emitter_.close();
        }
        emitter_.close();
        if (totals()) {
            body_.open("if (" + chain_ends("p") + ")");
            each_sum([&](const std::string& at) {
                body_.line("totals" + at + " += sums" + at + ", sums" + at + " = 0.0f;");
            });
            body_.close();
        }
        emitter_.close();
    }

    // This thread's part of an operand's tile, 8 positions deep: x is the left factor, g the right one.
    template <class At>
    void fragment(const Operand& operand, At at) {
        if (operand.is_x) {
            body_.line("float a[2][4];");
            body_.line("for (int m = 0; m < 2; ++m) for (int i = 0; i < 4; ++i) a[m][i] = " +
                       at(warp_row_ + " + m * 16 + " + eight_ + " + (i % 2) * 8", "(i / 2)") + ";");
        } else {
            const std::string count = number(shape_.fragments());
            body_.line("float b[" + count + "][2];");
            body_.line("for (int n = 0; n < " + count + "; ++n) for (int i = 0; i < 2; ++i) b[n][i] = " +
                       at(warp_column_ + " + n * 8 + " + eight_, "i") + ";");
        }
    }

    void multiply(int64_t turn) {
        const std::string each =
            "for (int m = 0; m < 2; ++m) for (int n = 0; n < " + number(shape_.fragments()) + "; ++n)";
        if (!shape_.strict()) {
            body_.line(each + " tf_product(sums[" + number(turn) + "][m][n], a[m], b[n]);");
            return;
        }
        body_.open(each);
        body_.line("float part[4] = {0.0f, 0.0f, 0.0f, 0.0f};");
        body_.line("tf_product(part, a[m], b[n]);");
        body_.line("for (int c = 0; c < 4; ++c) sums[" + number(turn) + "][m][n][c] += part[c];");
        body_.close();
    }

    void keep_turned(const std::string& chunk) {
        body_.line("for (int j = 0; j < " + number(loads(turned_)) + "; ++j) turned[(" + warp_ + " + j * 8) * " +
                   number(ring_pitch) + " + (" + chunk + " & " + number(ring - 1) + ") + " + lane_ +
                   "] = " + staged("next_turned[j]") + ";");
    }

    void keep_still() {
        body_.line("for (int s = 0; s < " + number(planes()) + "; ++s) for (int j = 0; j < " + number(loads(still_)) +
                   "; ++j) still[stage * " + number(shape_.still_floats()) + " + (s * " + number(shape_.still_tile()) +
                   " + " + warp_ + " + j * 8) * " + number(pitch) + " + " + lane_ +
                   "] = " + staged("next_still[s][j]") + ";");
    }

    void store() {
        open_slot();
        int64_t turn = 0;
        for (size_t s = 0; s < taps_.planes(); ++s)
            for (size_t r = 0; r < turns_of(s); ++r, ++turn) {
                body_.open("for (int m = 0; m < 2; ++m) for (int n = 0; n < " + number(shape_.fragments()) +
                           "; ++n) for (int c = 0; c < 4; ++c)");
                body_.line("const int row = " + plus(first_x_, warp_row_) + " + m * 16 + " + eight_ +
                           " + (c / 2) * 8;");
                body_.line("const int column = " + plus(first_g_, warp_column_) + " + n * 8 + 2 * " + four_ +
                           " + c % 2;");
                body_.line(stored(s, r, "row", "column", "sums[" + number(turn) + "][m][n][c]"));
                body_.close();
            }
    }

    std::string warp_, warp_row_, warp_column_;
};

}  // namespace

Launch correlate_by_warps(const Surroundings& s, const Places& places, const CorrelateShape& shape) {
    return WarpsWriter(s, places, shape).write();
}

}  // namespace transfuse::cuda
