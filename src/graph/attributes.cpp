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

namespace {

void put(Attributes::Items& items, Key key, Number value) {
    auto at = position(items, key);
    if (at != items.end() && at->first == key)
        at->second = std::move(value);
    else
        items.emplace(at, key, std::move(value));
}

void mix(size_t& hash, uint64_t value) { hash = (hash ^ value) * 0x9e3779b97f4a7c15ull + (hash >> 29); }

size_t hash_of(const Attributes::Items& items) {
    size_t hash = items.size();
    for (const auto& [key, number] : items) {
        mix(hash, static_cast<uint64_t>(key));
        std::visit(
            [&](const auto& value) {
                if constexpr (requires { value.size(); }) {
                    mix(hash, value.size());
                    for (auto element : value) mix(hash, bits(element));
                } else {
                    mix(hash, bits(value));
                }
            },
            number);
    }
    return hash;
}

}  // namespace

Attributes::Held::Held(Items list) : items(std::move(list)), hash(hash_of(items)) {}

Attributes::Attributes(std::initializer_list<std::pair<Key, Number>> list) {
    Items given;
    given.reserve(list.size());
    for (const auto& [key, value] : list) put(given, key, value);
    if (!given.empty()) held_ = std::make_shared<Held>(std::move(given));
}

Attributes& Attributes::set(Key key, Number value) {
    if (auto at = position(items(), key); at != items().end() && at->first == key && transfuse::same(at->second, value))
        return *this;
    if (held_.use_count() == 1) {  // nobody else's: in place, so that references to other values stay
        put(held_->items, key, std::move(value));
        held_->hash = hash_of(held_->items);
        return *this;
    }
    Items more = items();
    put(more, key, std::move(value));
    held_ = std::make_shared<Held>(std::move(more));
    return *this;
}

const Attributes::Items& Attributes::items() const {
    static const Items none;
    return held_ ? held_->items : none;
}

bool Attributes::has(Key key) const {
    auto at = position(items(), key);
    return at != items().end() && at->first == key;
}

bool Attributes::same(const Attributes& other) const {
    if (held_ == other.held_) return true;
    if (hash() != other.hash()) return false;
    const Items &left = items(), &right = other.items();
    return std::equal(left.begin(), left.end(), right.begin(), right.end(), [](const auto& x, const auto& y) {
        return x.first == y.first && transfuse::same(x.second, y.second);
    });
}

int64_t Attributes::integer(Key key) const { return get<int64_t>(items(), key, "an integer"); }

double Attributes::number(Key key) const {
    auto at = position(items(), key);
    if (at != items().end() && at->first == key)
        if (const int64_t* integer = std::get_if<int64_t>(&at->second)) return static_cast<double>(*integer);
    return get<double>(items(), key, "a number");
}

const Sizes& Attributes::integers(Key key) const { return get<Sizes>(items(), key, "a list of integers"); }

const std::vector<double>& Attributes::numbers(Key key) const {
    return get<std::vector<double>>(items(), key, "a list of numbers");
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

Attributes lattice_attributes(const Lattices& axes, int64_t groups) {
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
