// How a turned product's results, laid down in shared memory as rows of outputs, go to memory (turned_stores.h).
#pragma once

#include "cuda/dense/epilogue.h"
#include "cuda/dense/lines.h"
#include "cuda/dense/turned_shape.h"

namespace transfuse::cuda {

// Which row and column of the image a pixel of a window is.
inline std::string turned_row(const Schedule& s, const std::string& pixel, const std::string& column) {
    return s.unbroken ? "const int row = " + pixel + " / EXTENT_W, " + column + " = " + pixel + " % EXTENT_W;"
                      : "const int row = 0, " + column + " = " + pixel + ";";
}

// struct Rows: where the outputs of a window lie in memory. `shift`: how far behind its column an output lies in shared
// memory; `store`: a warp's rows of a part of the channels.
// The constants stand before what they are used in.
void turned_row_constants(Lines& lines, const Epilogue& epilogue, const Schedule& schedule, const TurnedShape& shape);
void turned_rows(Lines& lines, const Epilogue& epilogue, const Schedule& schedule, const TurnedShape& shape);

}  // namespace transfuse::cuda
