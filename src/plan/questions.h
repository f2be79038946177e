// What the planner asks about sizes while it makes a plan, with the answers. Beside these it only asks whether extents
// are equal, to each other or to 0 and 1.
#pragma once

#include <vector>

#include "transfuse/plan.h"

namespace transfuse {

// A value that its readers would make of what it is made of, in the place of its being stored.
struct Moved {
    Few<ValueId, 8> made;      // the value, and those below it that are made with it
    Few<ValueId, 8> read;      // what is read for it
    Few<ValueId, 4> kept;      // statistics of rows that are stored for it
    Few<ValueId, 8> products;  // anchors of the dense passes that would make it while they load
    size_t readers = 0;
    bool stays = false;  // the pass it comes from is there all the same
};

struct Questions {
    struct AtMost {
        Sizes extents;  // their product
        int64_t most;
        bool answer;
    };
    struct Splits {  // splits_only
        Sizes from, to;
        bool answer;
    };
    struct Pools {  // tile_pool
        ValueId value;
        bool answer;
    };
    struct Gains {  // Facts::gain
        Moved moved;
        bool answer;
    };
    std::vector<AtMost> at_most;
    std::vector<Splits> splits;
    std::vector<Pools> pools;
    std::vector<Gains> gains;
    bool others = false;  // plans were weighed, which is not written down
};

}  // namespace transfuse
