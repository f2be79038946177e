// The chain on a swap-AB product's accumulators (swap_ab_stores.h), in two steps: all channels up to the last reduction
// over them, then what follows, some channels at a time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cuda/dense/read/affine.h"
#include "cuda/dense/read/chain.h"

namespace transfuse::cuda {

// v[i][e]: two pixels, and the channels 8j + 2(lane % 4) + {0, 1}. The others are three lanes away at most.
class SwapAbChain : public Chain {
public:
    SwapAbChain(const Epilogue& epilogue, Lines& lines);

    void declare();                         // what is carried from the first step to the second
    void before(const std::string& block);  // leaves in the accumulators what the second step begins with
    bool ahead() const { return affine_ || !ahead_.empty(); }
    void declare_ahead();                  // what the second step has of channels, whatever the pixel
    void load_ahead();                     // that of columns FIRST_E up to LAST_E
    void after(const std::string& block);  // the results of those columns, in their places

protected:
    void across(const std::string& result, Op op, const std::string& term) override;
    void load_channels(const std::string& name, const std::string& from) override;
    std::string columns() const override;

private:
    void find_affine();
    std::string affine_value() const;
    void shift(const std::function<void(ValueId, const std::string&)>& load);
    bool is_channel_table(ValueId v) const;
    bool varies_by_channel(ValueId v) const;
    void look_back(ValueId v);  // what the second step needs of the first to make v
    void carry(const std::string& name, bool by_channel);
    ValueId sum_of_share(ValueId v) const;

    const ValueId anchor_, result_;
    std::vector<ValueId> early_, late_;            // steps
    std::vector<std::string> by_channel_, pixel_;  // names that are carried
    std::vector<ValueId> ahead_;                   // per channel, loaded ahead
    Affine affine_;                                // what the second step begins with, where that is one
    bool in_parts_ = false;
};

}  // namespace transfuse::cuda
