// A weight gradient by warpgroups (wgmma). One or two of them bring positions, rounded to TF32; two multiply: the
// turned operand from registers, read from the ring at any turn, the other from shared memory where it was put in
// blocks.
#include "cuda/kernel/warpgroup_code.h"
#include "cuda/sums/correlate/correlate_writer.h"

namespace transfuse::cuda {

namespace {

constexpr int64_t depth = CorrelateShape::depth, registers_of_processor = 65536, warpgroup = 128;

class GroupsWriter : CorrelateWriter {
public:
    using CorrelateWriter::CorrelateWriter;

    Launch write() {
        write_body();
        return launch("tf_correlate_groups", (2 + loading_groups_) * warpgroup, ", wgmma, TF32",
                      std::string(ptx_code()) + warpgroup_code("tf32", sums_of_turn(), LeftFactor::registers), 1);
    }

private:
    int64_t sums_of_turn() const { return shape_.group_columns() / 2; }
    int64_t steps_of_eight() const {
        return depth / 8 / (shape_.halves_columns() ? 1 : 2);
    }  // a step's, of a warpgroup
    int64_t products() const { return steps_of_eight() * turns(); }
    // Factors in registers: while products read the others, one is loaded.
    int64_t factors() const {
        for (int64_t count : {4, 3})
            if (products() % count == 0) return count;
        return 2;
    }
    int64_t loading_registers() const { return round_up(loads(turned_) + planes() * loads(still_) + 40, 8); }
    int64_t product_registers(int64_t loading_groups) const {
        // Registers are a block's for good as it begins, in eights a thread: what one role takes another has given.
        const int64_t groups = 2 + loading_groups;
        const int64_t left =
            registers_of_processor / (warpgroup * groups) / 8 * 8 * groups - loading_groups * loading_registers();
        return std::min<int64_t>(232, left / 2 / 8 * 8);
    }
    // Two warpgroups of loading warps take steps in turn, so that twice as much is under way, where registers are left.
    int64_t choose_loading_groups() const {
        return product_registers(2) >= turns() * sums_of_turn() + 4 * factors() + 32 ? 2 : 1;
    }

    bool totals() const {
        return product_registers(loading_groups_) >= 2 * turns() * sums_of_turn() + 4 * factors() + 32;
    }

    void write_body() {
        const std::string slots = number(shape_.slots);
        body_.line("extern __shared__ __align__(1024) unsigned char shared[];");
        body_.line("unsigned* const turned = (unsigned*)shared;  // [channel][position of the ring]");
        body_.line("unsigned char* const still = shared + " + number(shape_.turned_bytes()) +
                   ";  // [slot][plane][position / 4][channel][position % 4]");
        body_.line("unsigned long long* const full = (unsigned long long*)(shared + " + number(shape_.barriers_at()) +
                   "), *const empty = full + " + slots + ";");
        body_.open("if (threadIdx.x == 0)");
        body_.line("for (int i = 0; i < " + slots + "; ++i) barrier_init(shared_address(full + i), 128), " +
                   "barrier_init(shared_address(empty + i), 256);");
        body_.line("barrier_fence();");
        body_.close();
        body_.line("__syncthreads();");
        body_.line("TF_SEQUENCE();");
        take_block();
        take_lane();
        take_turns();
        loading_groups_ = choose_loading_groups();
        warp_ = let("(int)threadIdx.x / 32 % 4", "warp"), role_ = let("(int)threadIdx.x / 128", "role");
        body_.line("int slot = 0, round = 0;");
        emitter_.open("if (" + role_ + " >= 2)");
        body_.line("registers_give<" + number(loading_registers()) + ">();");
        write_loads();
        body_.line("return;");
        emitter_.close();
        body_.line("registers_take<" + number(product_registers(loading_groups_)) + ">();");
        write_products();
        if (!shape_.halves_columns()) add_halves();
        store();
    }

    std::string at_barrier(const std::string& name, const std::string& slot) const {
        return "shared_address(" + name + " + " + slot + ")";
    }
    void next_slot(int64_t steps) {
        const std::string slots = number(shape_.slots);
        body_.line("if ((slot += " + number(steps) + ") >= " + slots + ") slot -= " + slots + ", ++round;");
    }

    void write_loads() {
        body_.line("float next_turned[" + number(loads(turned_)) + "], next_still[" + number(planes()) + "][" +
                   number(loads(still_)) + "];");
        const Seen turned_at = declare("turned"), still_at = declare("still");
        const bool both = loading_groups_ == 2;
        if (both) body_.line("slot = " + role_ + " - 2;");
        for (int64_t c = 0; c < shape_.ahead(); ++c) {  // what the turns of the first step see, but for the last part
            emitter_.open(both ? "if (slot == 0)" : "");
            find(turned_at, turned_, plus(plus(begin_, number(c * depth)), least_turn_));
            load(turned_at, turned_, turned_residue_, "next_turned", warp_);
            keep_turned(number(c * depth));
            emitter_.close();
        }
        const auto find_at = [&](const std::string& p) {
            find(turned_at, turned_, plus(p + " + " + number(shape_.ahead() * depth), least_turn_));
            find(still_at, still_, p);
        };
        const std::string first = let(both ? plus(begin_, "slot * " + number(depth)) : begin_, "first"),
                          step = number(loading_groups_ * depth);
        find_at(first);
        emitter_.open("for (int p = " + first + "; p < " + end_ + "; p += " + step + ")");
        load(turned_at, turned_, turned_residue_, "next_turned", warp_);
        for (int64_t s = 0; s < planes(); ++s)
            load(still_at, still_, residues_[static_cast<size_t>(s)], "next_still[" + number(s) + "]", warp_);
        find_at("p + " + step);  // of the next step, while these are on their way
        body_.line("if (round > 0) barrier_wait(" + at_barrier("empty", "slot") + ", (round - 1) & 1);");
        keep_turned("(p - " + begin_ + " + " + number(shape_.ahead() * depth) + ")");
        keep_still();
        body_.line("fence_proxy();");
        body_.line("barrier_arrive(" + at_barrier("full", "slot") + ");");
        next_slot(loading_groups_);
        emitter_.close();
    }

    std::string ring_pitch() const { return number(shape_.ring_positions() + 4); }
    std::string ring_mask() const { return number(shape_.ring_positions() - 1); }

    void keep_turned(const std::string& chunk) {
        unroll("int j = 0; j < " + number(loads(turned_)) + "; ++j");
        body_.line("    turned[(" + warp_ + " + j * 4) * " + ring_pitch() + " + (" + chunk + " & " + ring_mask() +
                   ") + " + lane_ + "] = round_tf32(next_turned[j]);");
    }

    void keep_still() {
        unroll("int s = 0; s < " + number(planes()) + "; ++s");
        unroll("int j = 0; j < " + number(loads(still_)) + "; ++j");
        body_.line("        *(unsigned*)(still + slot * " + number(shape_.slot_bytes()) + " + (s * " +
                   number(depth / 4) + " + " + lane_ + " / 4) * " + number(shape_.block_column()) + " + (" + warp_ +
                   " + j * 4) * 16 + " + four_ + " * 4) = round_tf32(next_still[s][j]);");
    }

    void unroll(const std::string& loop) {
        body_.line("#pragma unroll");
        body_.line("for (" + loop + ")");
    }

    void write_products() {
        body_.line("unsigned a[" + number(factors()) + "][4];");
        body_.line("float sums[" + number(turns()) + "][" + number(sums_of_turn()) + "] = {};");
        if (totals()) body_.line("float totals[" + number(turns()) + "][" + number(sums_of_turn()) + "] = {};");
        // A warpgroup's part of every step: half of the still operand's channels, or half of the positions.
        const std::string apart =
            role_ + " * " +
            number(shape_.halves_columns() ? shape_.group_columns() * 16 : depth / 8 * shape_.block_column());
        const std::string first =
            let(shape_.halves_columns() ? four_ : plus(four_, role_ + " * " + number(depth / 2)), "first");
        body_.line("const unsigned* const mine = turned + (" + warp_ + " * 16 + " + eight_ + ") * " + ring_pitch() +
                   ";");
        emitter_.open("for (int p = " + begin_ + "; p < " + end_ + "; p += " + number(depth) + ")");
        body_.line("barrier_wait(" + at_barrier("full", "slot") + ", round & 1);");
        body_.line("const unsigned here = shared_address(still) + slot * " + number(shape_.slot_bytes()) + " + " +
                   apart + ";");
        const std::string from = let("p - " + begin_ + " + " + first, "from");
        int64_t product = 0;
        for (int64_t k = 0; k < steps_of_eight(); ++k) {
            int64_t turn = 0;
            for (size_t s = 0; s < taps_.planes(); ++s)
                for (size_t r = 0; r < turns_of(s); ++r, ++turn)
                    multiply(product++, turn, from + " + " + turned_by_[static_cast<size_t>(turn)], k,
                             static_cast<int64_t>(s));
        }
        next_slot(1);
        if (totals()) {
            body_.open("if (" + chain_ends("p") + ")");
            take_sums();
            each_sum([&](const std::string& at, const std::string&) {
                body_.line("    totals" + at + " += sums" + at + ", sums" + at + " = 0.0f;");
            });
            body_.close();
        }
        emitter_.close();
        take_sums();
        if (totals())
            each_sum([&](const std::string& at, const std::string&) {
                body_.line("    sums" + at + " += totals" + at + ";");
            });
    }

    // The product that reads this factor's registers now has ended; so have all of the step before, once each of them
    // was met.
    void multiply(int64_t product, int64_t turn, const std::string& from, int64_t k, int64_t plane) {
        const std::string a = "a[" + number(product % factors()) + "]";
        body_.open("");
        body_.line("products_wait<" + number(factors() - 1) + ">();");
        if (product == factors() - 1)
            body_.line("if (p > " + begin_ + ") barrier_arrive(" +
                       at_barrier("empty", "(slot ? slot - 1 : " + number(shape_.slots - 1) + ")") + ");");
        body_.line("const int at = (" + plus(from, number(k * 8)) + ") & " + ring_mask() + ", later = (at + 4) & " +
                   ring_mask() + ";");
        const std::string below = "8 * " + ring_pitch();
        body_.line(a + "[0] = mine[at], " + a + "[1] = mine[" + below + " + at], " + a + "[2] = mine[later], " + a +
                   "[3] = mine[" + below + " + later];");
        body_.line("products_begin();");
        body_.line("product(sums[" + number(turn) + "], " + a + ", descriptor(here + " +
                   number((plane * (depth / 4) + 2 * k) * shape_.block_column()) + ", " +
                   number(shape_.block_column()) + ", 128));");
        body_.line("products_commit();");
        body_.close();
    }

    // From here on they are what the products made of them.
    void take_sums() {
        body_.line("products_wait<0>();");
        each_sum([&](const std::string& at, const std::string&) { body_.line("    landed(sums" + at + ");"); });
    }

    template <class Do>
    void each_sum(Do what) {
        for (int64_t turn = 0; turn < turns(); ++turn) {
            unroll("int i = 0; i < " + number(sums_of_turn()) + "; ++i");
            what("[" + number(turn) + "][i]", number(turn * sums_of_turn()) + " + i");
        }
    }

    // The second warpgroup's sums, of its half of the positions, to the first.
    void add_halves() {
        body_.line("float* const others = (float*)shared + threadIdx.x % 128;");
        body_.line("barrier_named(1, 256);  // nobody reads operands any more");
        body_.open("if (" + role_ + " == 1)");
        each_sum([&](const std::string& at, const std::string& i) {
            body_.line("    others[(" + i + ") * 128] = sums" + at + ";");
        });
        body_.close();
        body_.line("barrier_named(1, 256);");
        body_.line("if (" + role_ + " == 1) return;");
        each_sum([&](const std::string& at, const std::string& i) {
            body_.line("    sums" + at + " += others[(" + i + ") * 128];");
        });
    }

    void store() {
        open_slot();
        const bool x = turned_.is_x;
        const std::string row = let(plus(x ? first_x_ : first_g_, warp_ + " * 16 + " + eight_), "row");
        std::string column = plus(x ? first_g_ : first_x_, "2 * " + four_);
        if (shape_.halves_columns()) column = plus(column, role_ + " * " + number(shape_.group_columns()));
        column = let(column, "column");
        int64_t turn = 0;
        for (size_t s = 0; s < taps_.planes(); ++s)
            for (size_t r = 0; r < turns_of(s); ++r, ++turn) {
                const std::string to = stored(s, r, x ? "of_turned" : "of_still", x ? "of_still" : "of_turned",
                                              "sums[" + number(turn) + "][i]");
                body_.line("#pragma unroll");
                body_.open("for (int i = 0; i < " + number(sums_of_turn()) + "; ++i)");
                body_.line("const int of_turned = " + row + " + i / 2 % 2 * 8, of_still = " + column +
                           " + i / 4 * 8 + i % 2;");
                body_.line(to);
                body_.close();
            }
    }

    int64_t loading_groups_ = 1;
    std::string warp_, role_;
};

}  // namespace

Launch correlate_by_groups(const Surroundings& s, const Places& places, const CorrelateShape& shape) {
    return GroupsWriter(s, places, shape).write();
}

}  // namespace transfuse::cuda
