#include "cuda/dense/exits/swap_ab/swap_ab_stores.h"

#include <algorithm>

#include "cuda/dense/exits/accumulators/fragments.h"
#include "cuda/dense/exits/swap_ab/swap_ab_chain.h"
#include "cuda/dense/schedule/swap_ab_shape.h"
#include "cuda/kernel/expression.h"
#include "cuda/kernel/hooks.h"
#include "cuda/kernel/lines.h"

namespace transfuse::cuda {

namespace {

constexpr std::string_view swap_ab =
#include "cuda/device/exits/swap_ab_stores.cuh"
    ;

// Elements are loaded and stored as the bits of one word.
std::string word_of(int64_t bytes) { return bytes == 16 ? "uint4" : bytes == 4 ? "unsigned" : "unsigned short"; }

// What the text's constants say.
class SwapAbConstants {
public:
    SwapAbConstants(const Epilogue& epilogue, const Config& config, const Schedule& s)
        : problem_(epilogue.problem()),
          store_(epilogue.stores()[0]),
          s_(s),
          shape_(swap_ab_shape(static_cast<int>(bytes(store_.dtype)), config, s)),
          last_(epilogue.program().pixel_major) {}

    std::string text(bool ahead) {
        t.line("typedef " + std::string(storage_name(store_.dtype)) + " OUT;");
        t.constants({{"PHASES_W", s_.phases_w}, {"LAID", shape_.channels}});
        t.constants({{"LAID_PARTS", shape_.parts}, {"LAID_PITCH", shape_.pitch}, {"UNBROKEN", s_.unbroken}});
        codes();
        if (ahead) t.line("#define LOADS_AHEAD");
        if (last_)
            of_pixels();
        else if (in_pieces())
            of_pieces();
        else
            of_columns();
        return t.str();
    }

private:
    // Residues of each variant's sets.
    void codes() {
        std::vector<int> codes;
        for (size_t v = 0; v < s_.phase_table.size(); v += 2)
            for (const auto& list : s_.phase_table[v]) codes.push_back(list[0].code());
        t.constants({{"SOME_LACK_PHASES", *std::min_element(codes.begin(), codes.end()) < 0}});
        bool even = codes.size() > 1 && codes[1] > codes[0];
        for (size_t i = 1; i < codes.size(); ++i) even = even && codes[i] - codes[i - 1] == codes[1] - codes[0];
        if (even)
            t.line("static __device__ __forceinline__ int swap_ab_code(int i) { return i * " +
                   num(codes[1] - codes[0]) + (codes[0] ? " + " + num(codes[0]) : "") + "; }");
        else
            t.line("__constant__ int swap_ab_codes[] = {" + listed(codes) +
                   "};\nstatic __device__ __forceinline__ int swap_ab_code(int i) { return swap_ab_codes[i]; }");
    }

    // Channels that a lane stores at once: pairs of them, or one.
    void of_pixels() {
        const bool vectors = channels_divide(shape_.vector) && s_.operand_rows % (4 * shape_.vector) == 0;
        const int pairs = vectors ? shape_.vector / 2 : 1;
        t.line("#define CHANNELS_LAST");
        t.constants({{"PAIRS", pairs}, {"AT_ONCE", pairs > 1 || channels_divide(2) ? 2 : 1}});
    }
    bool channels_divide(int64_t by) const {
        if (problem_.cout % by || store_.offset % by) return false;
        for (size_t a : {0, 2, 3, 4})
            if (store_.strides[a] % by) return false;
        return true;
    }

    void of_columns() {
        const int together = are_vectors() ? shape_.vector : 1, columns = shape_.columns / together,
                  slots = std::min(32, columns);
        t.line("typedef " + word_of(bytes(store_.dtype) * together) + " ROW_PIECE;");
        t.constants({{"ROW_VECTOR", together}, {"ROW_SLOTS", slots}, {"ROW_TURNS", columns / slots}});
    }
    // All rows are whole vectors.
    bool are_vectors() const {
        const int vector = shape_.vector;
        if (s_.phases_w != s_.period[3] || problem_.axes[3].out % vector || store_.offset % vector) return false;
        if (s_.unbroken && s_.extent[3] * s_.phases_w % vector) return false;
        for (size_t a = 0; a < 4; ++a)
            if (store_.strides[a] % vector) return false;
        return true;
    }

    void of_pieces() {
        t.line("#define IN_PIECES");
        t.line("typedef " + word_of(bytes(store_.dtype)) + " ONE;");
        t.constants({{"WIDE_OUT", shape_.vector}, {"KINDS", shape_.vector / 4}});
        t.constants({{"WIDE_TURNS", std::max(1, shape_.columns / (32 * shape_.vector))}});
    }
    // A window is a piece of one row or of two, and neighbours lie side by side.
    bool in_pieces() const {
        return !are_vectors() && s_.phases_w == s_.period[3] && shape_.columns <= 4 * 32 * shape_.vector &&
               shape_.columns <= 512 && (!s_.unbroken || s_.run_pitch >= swap_ab_pixels);
    }

    const Problem& problem_;
    const Operand& store_;
    const Schedule& s_;
    const SwapAbShape shape_;
    const bool last_;  // channels
    Lines t;
};

}  // namespace

void place_windows(Hooks& places, const Schedule& s) {
    places["fields"] += ", start";
    if (s.unbroken)  // a tile begins anywhere in its first row
        places["start"] =
            "\n    at.start = at.u[2] / TILE_H * (2 * RUN_PIXELS); at.u[2] = at.start / EXTENT_W; at.start %= "
            "EXTENT_W;";
}

std::string swap_ab_program(const Epilogue& epilogue, const Config& config, const Schedule& schedule) {
    Lines written;
    SwapAbChain chain(epilogue, written);
    Hooks pieces;  // one behind the other: what one declares the next may name
    const auto add = [&](const std::string& name, const auto& write) {
        const size_t begin = written.str().size();
        write();
        pieces[name] = written.str().substr(begin);
    };
    add("declare", [&] { chain.declare(); });
    add("before", [&] { chain.before("b"); });
    add("ahead", [&] { chain.declare_ahead(); });
    if (chain.ahead()) add("load", [&] { chain.load_ahead(); });
    add("after", [&] { chain.after("b"); });
    return SwapAbConstants(epilogue, config, schedule).text(chain.ahead()) + hooked(swap_ab, pieces);
}

}  // namespace transfuse::cuda
