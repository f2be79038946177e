#include "cuda/sums/correlate/correlate_writer.h"

#include "transfuse/error.h"

namespace transfuse::cuda {

// A number of the block's tap along an outer axis.
template <class Of>
std::string CorrelateWriter::of_tap(size_t axis, Of of) {
    const std::vector<TapRange>& ranges = shape_.ranges[axis];
    std::string text = integer(of(ranges[0]));
    for (size_t k = 1; k < ranges.size(); ++k) {
        const std::string other = integer(of(ranges[k]));
        if (other != text)
            text = "(" + tap_[axis] + " == " + number(static_cast<int64_t>(k)) + " ? " + other + " : " + text + ")";
    }
    return let(text, "n_");
}

void CorrelateWriter::take_block() {
    std::string rest = "(int)blockIdx.x";
    auto take = [&](int64_t extent, std::string_view prefix) {
        if (extent == 1) return std::string("0");
        const std::string q = let(parameters_.quotient(rest, extent, false), "q"),
                          r = let(parameters_.remainder(rest, q, extent, false), prefix);
        rest = q;
        return r;
    };
    // Taps of one slice side by side: they read the same pixels, which then are in the L2.
    bundle_ = take(static_cast<int64_t>(taps_.bundles.size()), "bundle");
    tap_.assign(shape_.outer.size(), "");
    for (size_t i = shape_.outer.size(); i-- > 0;) tap_[i] = take(shape_.outer[i].taps, "tap");
    const std::string column_tile = take(shape_.column_tiles, "columns"), row_tile = take(shape_.row_tiles, "rows");
    group_ = take(shape_.sizes[0], "group");
    slice_ = let(rest, "slice");
    std::string rows = integer(shape_.batch);
    for (size_t i = 0; i < shape_.outer.size(); ++i) {
        first_i_.push_back(of_tap(i, [](const TapRange& r) { return r.first_i; }));
        first_o_.push_back(of_tap(i, [](const TapRange& r) { return r.first_o; }));
        count_.push_back(of_tap(i, [](const TapRange& r) { return r.count; }));
        rows = times(rows, count_.back());
    }
    positions_ = let(times(rows, integer(shape_.row_pitch)), "positions");
    begin_ = let(times(slice_, integer(shape_.slice)), "begin");
    end_ = let("min(" + begin_ + " + " + integer(shape_.slice) + ", " + positions_ + ")", "end");
    const Operand x{shape_.x, true, shape_.sizes[1], shape_.rows, row_.advance(), row_tile},
        g{shape_.g, false, shape_.sizes[2], shape_.columns, row_.period(), column_tile};
    turned_ = taps_.turns_x ? x : g, still_ = taps_.turns_x ? g : x;
}

void CorrelateWriter::take_turns() {
    least_turn_ = of_bundle([](const Bundle& b) { return b.least_turn; });
    turned_residue_ = of_bundle([](const Bundle& b) { return b.turned_residue; });
    for (size_t s = 0; s < taps_.planes(); ++s) {
        residues_.push_back(of_bundle([&](const Bundle& b) { return b.planes[s].residue; }));
        for (size_t r = 0; r < turns_of(s); ++r)
            turned_by_.push_back(of_bundle([&](const Bundle& b) { return b.planes[s].turns[r].turn - b.least_turn; }));
    }
}

void CorrelateWriter::take_lane() {
    lane_ = let("(int)threadIdx.x % 32", "lane");
    four_ = let(lane_ + " % 4", "t"), eight_ = let(lane_ + " / 4", "g");
}

CorrelateWriter::Seen CorrelateWriter::declare(const std::string& prefix) {
    Seen seen{prefix + "_inside", prefix + "_image", prefix + "_column", {}};
    std::string names = seen.image + " = 0, " + seen.column + " = 0";
    for (size_t i = 0; i < shape_.outer.size(); ++i) {
        seen.outer.push_back(prefix + "_outer" + number(static_cast<int64_t>(i)));
        names += ", " + seen.outer.back() + " = 0";
    }
    body_.line("int " + names + ";");
    body_.line("bool " + seen.inside + " = false;");
    return seen;
}

void CorrelateWriter::find(const Seen& seen, const Operand& operand, const std::string& at) {
    emitter_.open("");
    const std::string position = let(plus(at, lane_), "position");
    body_.line(seen.inside + " = " + position + " >= 0 && " + position + " < " + positions_ + ";");
    emitter_.open("if (" + seen.inside + ")");
    std::string rest = let(parameters_.quotient(position, shape_.row_pitch, true), "row");
    body_.line(seen.column + " = " + position + " - " + rest + " * " + integer(shape_.row_pitch) + ";");
    for (size_t i = shape_.outer.size(); i-- > 0;) {
        const Lattice& axis = shape_.outer[i];
        const std::string q = let(rest + " / " + count_[i], "q"), u = let(rest + " - " + q + " * " + count_[i], "u");
        body_.line(seen.outer[i] + " = " +
                   (operand.is_x ? plus(first_i_[i], times(u, number(axis.advance())))
                                 : plus(first_o_[i], times(u, number(axis.period())))) +
                   ";");
        rest = q;
    }
    body_.line(seen.image + " = " + rest + ";");
    emitter_.close();
    emitter_.close();
}

std::string CorrelateWriter::unhoisted(const std::string& number) {
    const std::string name = body_.fresh("first");
    body_.line({"int ", name, " = ", number, ";"});
    body_.line({"asm volatile(\"\" : \"+r\"(", name, "));"});
    return name;
}

void CorrelateWriter::load(const Seen& seen, const Operand& operand, const std::string& residue,
                           const std::string& into, const std::string& warp) {
    body_.line("for (int j = 0; j < " + number(loads(operand)) + "; ++j) " + into + "[j] = 0.0f;");
    emitter_.open("");
    const size_t rank = shape_.outer.size() + 3;
    Index index(rank);
    const std::string w = let(plus(times(seen.column, number(operand.step)), residue), "w");
    emitter_.open("if (" + seen.inside + " && " + w + " < " + integer(operand.is_x ? row_.in : row_.out) + ")");
    index[0] = {seen.image}, index[rank - 1] = {w};
    for (size_t i = 0; i < shape_.outer.size(); ++i) index[i + 2] = {seen.outer[i]};
    const std::string first = unhoisted(plus(times(operand.channel_tile, number(operand.tile)), warp));
    body_.line("#pragma unroll");
    emitter_.open("for (int j = 0; j < " + number(loads(operand)) + "; ++j)");
    const std::string channel = let(first + " + j * " + number(shape_.loading_warps()), "channel");
    const bool whole = operand.channels % operand.tile == 0 && operand.tile % shape_.loading_warps() == 0;
    emitter_.open(whole ? "" : "if (" + channel + " < " + number(operand.channels) + ")");
    index[1] = {let(plus(times(group_, number(operand.channels)), channel), "c")};
    body_.line(into + "[j] = (float)" + emitter_.value(operand.value, index).text[0] + ";");
    for (int open = 0; open < 4; ++open) emitter_.close();
}

void CorrelateWriter::open_slot() {
    const Sizes& sizes = shape_.sizes;
    std::string outer_tap = "0";
    for (size_t i = 0; i < shape_.outer.size(); ++i)
        outer_tap = plus(times(outer_tap, number(shape_.outer[i].taps)), tap_[i]);
    const std::string pointer = parameters_.pointer(Argument::of_scratch(0), "float", false);
    const std::string base = emitter_.let("long long",
                                          "(long long)" + slice_ + " * " + integer(numel(sizes)) + " + " +
                                              plus(times(group_, number(sizes[1] * sizes[2] * shape_.all_taps())),
                                                   times(outer_tap, number(row_.taps * shape_.slot_strides.back()))),
                                          "to");
    slot_ = "(" + pointer + " + " + base + ")";
    const Operand &x = turned_.is_x ? turned_ : still_, &g = turned_.is_x ? still_ : turned_;
    first_x_ = times(x.channel_tile, number(x.tile)), first_g_ = times(g.channel_tile, number(g.tile));
}

std::string CorrelateWriter::stored(size_t plane, size_t turn, const std::string& of_x, const std::string& of_g,
                                    const std::string& text) {
    const Sizes& sizes = shape_.sizes;
    const std::string tap = of_bundle([&](const Bundle& b) { return b.planes[plane].turns[turn].tap; });
    const auto along = [&](const std::string& at, int64_t stride) { return times("(" + at + ")", number(stride)); };
    return "if (" + tap + " >= 0 && " + of_x + " < " + number(sizes[1]) + " && " + of_g + " < " + number(sizes[2]) +
           ") " + slot_ + "[" + along(of_x, shape_.slot_strides[1]) + " + " + along(of_g, shape_.slot_strides[2]) +
           " + " + along(tap, shape_.slot_strides.back()) + "] = " + text + ";";
}

Launch CorrelateWriter::launch(const std::string& entry, int64_t threads, const std::string& how,
                               const std::string& code, int64_t resident) const {
    Launch launch = kernel_.launch(entry, shape_.blocks() * shape_.slices, threads,
                                   "weight gradient" + to_string(shape_.sizes) + ", tiles " + number(shape_.rows) +
                                       " x " + number(shape_.columns) + " x " + number(turns()) + " taps, " +
                                       number(shape_.slices) + " slices" + how,
                                   code, resident);
    launch.shared_bytes = static_cast<uint32_t>(shape_.shared_bytes());
    return launch;
}

}  // namespace transfuse::cuda
