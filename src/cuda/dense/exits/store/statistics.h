// Grid reductions in the store role: each chunk's part is added to slots in shared memory, one a channel, which a tile
// (or at the end a CTA) leaves in memory as its partial results.
#pragma once

#include "cuda/dense/exits/store/store_map.h"
#include "cuda/dense/read/chain.h"

namespace transfuse::cuda {

class Statistics {
public:
    Statistics(const Epilogue& epilogue, const StoreMap& map, Chain& chain, Lines& lines)
        : epilogue_(epilogue), m_(map), chain_(chain), t(lines) {}

    void begin();                        // once a thread
    void accumulate();                   // of a batch of rows
    void flush(const std::string& row);  // the slots become the partial results of that row

private:
    std::string slot(int stat, const std::string& channel) const;
    void sum(const Partial& p);
    void exponentials(const Partial& p);
    void moments(const Partial& p);
    void one_channel(const Partial& p);      // of a value that is the same for all channels
    void own_rows(const std::string& work);  // runs `work` for each row j of the batch that ends at this thread

    const Epilogue& epilogue_;
    const StoreMap& m_;
    Chain& chain_;
    Lines& t;
};

}  // namespace transfuse::cuda
