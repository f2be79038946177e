// Which results of a tile a lane of the product warps has, and which of them lie in the output.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "cuda/dense/read/epilogue.h"
#include "cuda/kernel/lines.h"

namespace transfuse::cuda {

class FragmentPlaces {
public:
    // asked: each result of a tile is asked where it lies, unless tiles are pooled or some results belong to nobody;
    // else masks say it.
    FragmentPlaces(const Epilogue& epilogue, const Schedule& schedule, const Config& config, bool asked, Lines& lines);

    bool pooled() const { return pooled_; }
    bool asked() const { return asked_; }
    bool whole_tiles_apart() const { return whole_apart_; }
    int64_t results() const { return static_cast<int64_t>(columns_.size()); }  // of a lane, in a row
    int reach() const { return reach_[3]; }                                    // pixels of a window along w
    // In groups of 8 pixels: where the results' first are, and from there the members of a window.
    std::vector<int> groups() const;
    const std::vector<int>& members() const { return members_; }
    // Where windows join lanes, the first of them counts; empty where all do.
    std::string counts() const;
    // Whether result e of row i of accumulator b lies in the output; `phases`: a table that it may read, before.
    std::string inside() const;
    void phases();

    void tables();     // before the struct: result_pixels or segment_phases, and the type of masks
    void fields();     // masks of results inside, of this tile and of the last one with other ends
    void functions();  // device functions that keep them, or that say where a result lies

private:
    // 8-pixel group, and pixel of the lane's two.
    struct Column {
        int group, pixel;
    };
    void find_columns(const Config& config);
    std::vector<int> codes() const;  // residues of [variant][warpgroup][accumulator][segment]
    bool phased() const;             // residues differ
    bool alike() const;              // every variant and warpgroup has the same
    bool all_have_results() const;   // every accumulator's segments
    void is_inside();
    void is_whole();
    void at_the_end();
    void find_inside();
    void whole_tiles();
    void ends_elsewhere();

    const Schedule& s_;
    const Config& c_;
    Lines& t;
    const Needs needs_;
    const bool pooled_, asked_, whole_apart_;
    std::array<int, 4> reach_{};  // pixels of a window
    std::vector<Column> columns_;
    std::vector<int> members_;
};

}  // namespace transfuse::cuda
