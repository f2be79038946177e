#include "algebra/derivation/rules.h"

#include <algorithm>

#include "algebra/convolutions/rules.h"
#include "algebra/expand/rules.h"
#include "algebra/reductions/rules.h"
#include "algebra/simplify/rules.h"

namespace transfuse {

const std::vector<const Rule*>& all_rules() {
    static const std::vector<const Rule*> rules = [] {
        std::vector<const Rule*> list;
        for (auto table : {simplify_rules(),      shape_rules(),        expand_pointwise_rules(),
                           expand_conv_rules(),   expand_pool_rules(),  expand_interpolate_rules(),
                           expand_norm_rules(),   constant_rules(),     constant_channel_rules(),
                           constant_axes_rules(), pixelwise_rules(),    compose_rules(),
                           sequence_rules(),      distribution_rules(), fold_rules(),
                           sum_rules(),           concat_rules(),       centred_rules(),
                           collapse_rules(),      box_rules(),          reduction_rules(),
                           cancel_rules(),        monotone_rules(),     statistics_rules(),
                           gate_rules(),          rearrange_rules(),    place_rules(),
                           flip_rules(),          permutation_rules(),  finish_rules()})
            for (const Rule& rule : table) list.push_back(&rule);
        return list;
    }();
    return rules;
}

std::vector<std::string> rule_names() {
    std::vector<std::string> names;
    for (const Rule* rule : all_rules())
        if (std::find(names.begin(), names.end(), rule->name) == names.end()) names.emplace_back(rule->name);
    return names;
}

}  // namespace transfuse
