// What both ways of a weight gradient write alike: which taps, channels and pixels a block has, how they are read,
// where its sums go. The turned operand lies in a ring, so that every turn of it is an address.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "algebra/lattice/integer.h"
#include "cuda/general/kernel_text.h"
#include "cuda/sums/correlate/correlate_shape.h"

namespace transfuse::cuda {

class CorrelateWriter {
public:
    CorrelateWriter(const Surroundings& s, const Places& places, const CorrelateShape& shape)
        : shape_(shape),
          taps_(shape.taps),
          row_(shape.row),
          kernel_(s, places),
          body_(kernel_.body),
          emitter_(kernel_.emitter),
          parameters_(kernel_.parameters) {}

protected:
    // One of the two operands, as the tiles see it.
    struct Operand {
        ValueId value = -1;
        bool is_x = true;
        int64_t channels = 0, tile = 0,
                step = 1;  // channels of a group, of a tile; distance of neighbours in a residue plane
        std::string channel_tile;
    };

    std::string integer(int64_t value) { return parameters_.integer(value, true); }
    std::string let(const std::string& text, std::string_view prefix) { return emitter_.let("int", text, prefix); }
    int64_t planes() const { return static_cast<int64_t>(taps_.planes()); }
    int64_t turns() const { return static_cast<int64_t>(taps_.turns()); }
    // At position `p` of the slice: whether a chain of sums ends with this step.
    std::string chain_ends(const std::string& p) const {
        return "(" + p + " - " + begin_ + ") % " + number(CorrelateShape::chain) +
               " == " + number(CorrelateShape::chain - CorrelateShape::depth);
    }
    // Each bundle's turns against its plane s.
    size_t turns_of(size_t s) const { return taps_.bundles[0].planes[s].turns.size(); }
    // Values of an operand that a thread brings at a step.
    int64_t loads(const Operand& operand) const { return ceil_div(operand.tile, shape_.loading_warps()); }

    // A number of each bundle, as the block's own.
    template <class Of>
    std::string of_bundle(Of of) {
        std::vector<int64_t> values;
        for (const Bundle& each : taps_.bundles) values.push_back(of(each));
        if (std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == values[0]; }))
            return number(values[0]);
        return let(emitter_.integer_table(values) + "[" + bundle_ + "]", "t_");
    }

    void take_block();  // which taps, channels and pixels are this block's
    void take_turns();
    void take_lane();
    // Where the thread's position lies in an operand: variables that `find` fills for position `at` + lane.
    struct Seen {
        std::string inside, image, column;  // column: of a residue plane
        std::vector<std::string> outer;
    };
    Seen declare(const std::string& prefix);
    void find(const Seen& seen, const Operand& operand, const std::string& at);
    // A number that the compiler must take as new each time. Addresses of channels it would compute once, for all
    // positions, and they take the registers of what is on its way.
    std::string unhoisted(const std::string& number);
    // The operand there, those channels of the tile that warp `warp` of the loading ones has; zero between and behind
    // rows.
    void load(const Seen& seen, const Operand& operand, const std::string& residue, const std::string& into,
              const std::string& warp);
    // Into this slice's slot: sum `text` of turn `turn`, of these channels of the tiles (texts).
    void open_slot();
    std::string stored(size_t plane, size_t turn, const std::string& of_x, const std::string& of_g,
                       const std::string& text);
    // resident: blocks of a multiprocessor that registers must do for; 0: as the compiler likes.
    Launch launch(const std::string& entry, int64_t threads, const std::string& how, const std::string& code,
                  int64_t resident) const;

    const CorrelateShape& shape_;
    const TapBundles& taps_;
    const Lattice& row_;
    KernelText kernel_;
    Body& body_;
    Emitter& emitter_;
    Parameters& parameters_;
    Operand turned_, still_;
    // Texts: of the block,
    std::string bundle_, group_, slice_, positions_, begin_, end_, least_turn_, turned_residue_;
    std::vector<std::string> tap_, first_i_, first_o_, count_;  // along the outer axes
    std::vector<std::string> residues_, turned_by_;             // of each still plane; of each turn against one
    std::string lane_, four_, eight_;                           // of the thread
    std::string slot_, first_x_, first_g_;                      // where its sums go

private:
    template <class Of>
    std::string of_tap(size_t axis, Of of);
};

// The kernel by warps (mma.sync), by warpgroups (wgmma: CorrelateShape::by_groups), and by columns (by_columns).
Launch correlate_by_warps(const Surroundings& s, const Places& places, const CorrelateShape& shape);
Launch correlate_by_groups(const Surroundings& s, const Places& places, const CorrelateShape& shape);
Launch correlate_by_columns(const Surroundings& s, const Places& places, const CorrelateShape& shape);

}  // namespace transfuse::cuda
