// How a swap-AB product's results, laid down in shared memory as rows of outputs, go to memory (swap_ab_stores.h).
#pragma once

#include <string>

#include "cuda/dense/read/epilogue.h"
#include "cuda/dense/schedule/swap_ab_shape.h"
#include "cuda/kernel/lines.h"

namespace transfuse::cuda {

// Which row and column of the image a pixel of a window is.
inline std::string swap_ab_row(const Schedule& s, const std::string& pixel, const std::string& column) {
    return s.unbroken ? "const int row = " + pixel + " / EXTENT_W, " + column + " = " + pixel + " % EXTENT_W;"
                      : "const int row = 0, " + column + " = " + pixel + ";";
}

// Parts of the text, in the order in which they stand.
class SwapAbRows {
public:
    SwapAbRows(Lines& lines, const Epilogue& epilogue, const Schedule& schedule, const SwapAbShape& shape);

    void constants();
    void functions();
    void window();  // where the outputs of a window lie in memory
    // How far behind its column an output lies in shared memory: a term, or nothing.
    std::string shift(const std::string& pixel, const std::string& channel) const;
    void stores();  // a warp's rows of a part of the channels, from `half`

private:
    bool are_vectors() const;  // all rows are
    bool in_pieces() const;    // a window is a piece of one row or of two, and neighbours lie side by side
    int together() const { return are_vectors() ? shape_.vector : 1; }
    void store_where(int bytes);
    void columns();
    void stores_of_columns();
    void pieces();
    void ranges();
    void wholes();
    void ends();
    void stores_of_pieces();

    Lines& t;
    const Problem& problem_;
    const Operand& store_;
    const Schedule& s_;
    const SwapAbShape& shape_;
    const int element_;     // bytes
    const int wide_turns_;  // of a warp, to store the vectors of a piece
    const std::string type_;
};

}  // namespace transfuse::cuda
