// Statistics of the results a lane has: how they begin, take a value, join those of other lanes and tiles.
#pragma once

#include <functional>
#include <string>

#include "cuda/dense/exits/accumulators/fragment_chain.h"
#include "cuda/dense/read/epilogue.h"
#include "cuda/kernel/lines.h"

namespace transfuse::cuda {

class FragmentSums {
public:
    FragmentSums(const Epilogue& epilogue, Lines& lines);

    void declare(const std::string& name);  // name[RESULT_ROWS][STATS]
    void clear(const std::string& name);    // where declaring it was not enough
    void functions();                       // device functions that the others call
    bool are_sums() const { return are_sums_; }

    // The chain's results to parts[row], where result e of row i is inside; `mask`: of variances, a bit for each e.
    void add(Chain& chain, const std::string& inside, const std::string& row, const std::string& mask = "");
    // Another lane's or tile's statistics to `to`.
    using Other = std::function<std::string(const std::string& statistic)>;
    void join(const std::string& to, const Other& other);

private:
    template <class F>
    void each(F&& what) {
        for (const Partial& p : epilogue_.partials()) what(p, num(p.first_stat));
    }
    void join_one(const Partial& p, const std::string& k, const std::string& to, const Other& other);
    void add_exponentials(const std::string& part, const std::string& k, const std::string& value,
                          const std::string& inside);
    void add_moments(const std::string& part, const std::string& k, const std::string& value, const std::string& mask);

    const Epilogue& epilogue_;
    Lines& t;
    const bool are_sums_;  // all of them: they begin with 0 and are added
};

}  // namespace transfuse::cuda
