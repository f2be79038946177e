// The sorted set of attributes of a node.
#include <algorithm>

#include "graph/schema.h"
#include "transfuse/error.h"
#include "transfuse/graph.h"

namespace transfuse {

namespace {

auto position(auto& items, Key key) {
    return std::lower_bound(items.begin(), items.end(), key, [](const auto& item, Key k) { return item.first < k; });
}

template <class Kind>
const Kind& get(const std::vector<std::pair<Key, Number>>& items, Key key, std::string_view kind) {
    auto at = position(items, key);
    if (at == items.end() || at->first != key) fail("attribute '", name(key), "' is absent");
    const Kind* value = std::get_if<Kind>(&at->second);
    if (!value) fail("attribute '", name(key), "' is not ", kind);
    return *value;
}

}  // namespace

Attributes::Attributes(std::initializer_list<std::pair<Key, Number>> list) {
    items_.reserve(list.size());
    for (const auto& [key, value] : list) set(key, value);
}

Attributes& Attributes::set(Key key, Number value) {
    auto at = position(items_, key);
    if (at != items_.end() && at->first == key)
        at->second = std::move(value);
    else
        items_.emplace(at, key, std::move(value));
    return *this;
}

bool Attributes::has(Key key) const {
    auto at = position(items_, key);
    return at != items_.end() && at->first == key;
}

int64_t Attributes::integer(Key key) const { return get<int64_t>(items_, key, "an integer"); }

double Attributes::number(Key key) const {
    auto at = position(items_, key);
    if (at != items_.end() && at->first == key)
        if (const int64_t* integer = std::get_if<int64_t>(&at->second)) return static_cast<double>(*integer);
    return get<double>(items_, key, "a number");
}

const std::vector<int64_t>& Attributes::integers(Key key) const {
    return get<std::vector<int64_t>>(items_, key, "a list of integers");
}

const std::vector<double>& Attributes::numbers(Key key) const {
    return get<std::vector<double>>(items_, key, "a list of numbers");
}

bool same(const Number& a, const Number& b) {
    if (a.index() != b.index()) return false;
    return std::visit(
        [&](const auto& left) {
            const auto& right = std::get<std::decay_t<decltype(left)>>(b);
            auto equal = [](auto x, auto y) { return bits(x) == bits(y); };
            if constexpr (requires { left.size(); })
                return std::equal(left.begin(), left.end(), right.begin(), right.end(), equal);
            else
                return equal(left, right);
        },
        a);
}

Attributes lattice_attributes(const std::vector<Lattice>& axes, int64_t groups) {
    Sizes up, down, dil, offset, out;
    for (const Lattice& axis : axes) {
        up.push_back(axis.up);
        down.push_back(axis.down);
        dil.push_back(axis.dil);
        offset.push_back(axis.offset);
        out.push_back(axis.out);
    }
    return {{Key::up, std::move(up)},         {Key::down, std::move(down)}, {Key::dil, std::move(dil)},
            {Key::offset, std::move(offset)}, {Key::out, std::move(out)},   {Key::groups, groups}};
}

}  // namespace transfuse
