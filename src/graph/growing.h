// While one lives, graphs of this thread grow: in with_leaf_types() the result of a lattice follows its input, out −
// up·in stays, and what else would have other attributes is an Error.
#pragma once

namespace transfuse {

class Growing {
public:
    Growing() : outer_(now_) { now_ = true; }
    ~Growing() { now_ = outer_; }
    Growing(const Growing&) = delete;
    Growing& operator=(const Growing&) = delete;
    static bool now() { return now_; }

private:
    static thread_local bool now_;
    const bool outer_;
};

}  // namespace transfuse
