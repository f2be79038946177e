// One instruction-set level: the table of its kernels.
#include "cpu/level/channels.h"
#include "cpu/level/content.h"
#include "cpu/level/convert.h"
#include "cpu/level/lines.h"
#include "cpu/level/product.h"
#include "cpu/level/reduce.h"
#include "cpu/level/rows.h"

#define TRANSFUSE_QUOTE_(x) #x
#define TRANSFUSE_QUOTE(x) TRANSFUSE_QUOTE_(x)

namespace transfuse::cpu::TRANSFUSE_LEVEL {
namespace {

template <class T>
constexpr Kernels<T> table = {
    .lanes = lanes<T>,
    .panel_rows = panel_rows,
    .product = product<T>,
    .row = row<T>,
    .load = load_row<T>,
    .store = store_row<T>,
    .load_rows = load_rows<T>,
    .store_planes = store_planes<T>,
    .stage_planes = stage_planes<T>,
    .line_product = line_product<T>,
    .channel_rows = channel_rows<T>,
    .pixel_row = pixel_row,
    .expand = expand<T>,
    .spread = spread<T>,
    .mix_taps = mix_taps<T>,
    .load_transposed = load_transposed<T>,
    .store_transposed = store_transposed<T>,
    .interleave = interleave<T>,
    .merge_pair = merge_pair<T>,
    .sum = sum<T>,
    .sum_square = sum_square<T>,
    .sum_exp = sum_exp<T>,
    .max = max<T>,
    .min = min<T>,
    .add_to = add_to<T>,
    .sum_memory = sum_memory,
    .add_lanes = add_lanes,
    .combine = combine<T>,
    .pool_row = pool_row<T>,
};

}  // namespace

extern const Level the_level;
const Level the_level = {TRANSFUSE_QUOTE(TRANSFUSE_LEVEL), table<float>, table<double>, content};

}  // namespace transfuse::cpu::TRANSFUSE_LEVEL
