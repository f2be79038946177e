#include <algorithm>
#include <cmath>

#include "cpu/tiles/tile_program.h"

namespace transfuse::cpu {

template <class T>
TileRun<T>::TileRun(const TileProgram& program, const BoundProgram& bound, Scratch& scratch, const Box& box,
                    const Box& pooled, int64_t tile, int64_t block_channels, int64_t first_channel, int64_t channels)
    : program_(program), bound_(bound), boxes_{box, pooled}, tile_(tile), block_channels_(block_channels) {
    const size_t count = program.slots_.size();
    base_.assign(count, nullptr);
    stride_.assign(count, 0);
    transposed_.assign(count, 0);
    const int64_t largest = std::max(elements(0), elements(1));
    std::vector<T*> registers(static_cast<size_t>(program.registers_));
    for (T*& r : registers) r = scratch.acquire<T>(largest);
    for (T*& t : temporary_) t = scratch.acquire<T>(largest);
    for (size_t s = 0; s < count; ++s) {
        const TileProgram::Slot& slot = program.slots_[s];
        const int64_t size = slot.uniform ? row_padding : elements(slot.level);
        for (int sink : slot.store_sinks)
            transposed_[s] |= bound.stores[static_cast<size_t>(sink)].channels_innermost();
        if (slot.given && !slot.resident) continue;
        if (slot.resident && !slot.once) {
            // A product may write up to a panel of rows past the last channel.
            base_[s] = scratch.acquire<T>(size * (program.channels() + (slot.given ? row_padding : 0)));
            stride_[s] = size;
        } else if (transposed_[s] && !slot.once) {
            base_[s] = scratch.acquire<T>(size * block_channels);
            stride_[s] = size;
        } else if (slot.reg >= 0) {
            base_[s] = registers[static_cast<size_t>(slot.reg)];
        } else {
            base_[s] = scratch.acquire<T>(size);
        }
        if (slot.literal) base_[s][0] = static_cast<T>(slot.number);
        if (slot.given) given_ = base_[s];
    }
    for (size_t g = 0; g < bound.reductions.size(); ++g)
        bound.reductions[g]->begin(bound.partials[g] + tile * bound.reductions[g]->slot_doubles(), first_channel,
                                   std::min(channels, program.channels() - first_channel));
}

template <class T>
T* TileRun<T>::pointer(int s, int64_t c) const {
    const auto at = static_cast<size_t>(s);
    const TileProgram::Slot& slot = program_.slots_[at];
    if (slot.given && !slot.resident) return const_cast<T*>(given_block_) + (c - block_start_) * given_pitch_;
    if (stride_[at] == 0) return base_[at];
    return base_[at] + (slot.resident ? c : c - block_start_) * stride_[at];
}

template <class T>
void TileRun<T>::channels(int64_t c, int64_t count, const T* given, int64_t pitch) {
    if (c == 0) once(0);
    given_block_ = given;
    given_pitch_ = pitch;
    block(0, c, count);
}

template <class T>
const T* TileRun<T>::row(const Box& box, int64_t c, const T* given, int slot) {
    boxes_[0] = boxes_[1] = box;
    once(0);
    given_block_ = given;
    given_pitch_ = 0;
    block(0, c, 1);
    return pointer(slot, c);
}

template <class T>
void TileRun<T>::finish() {
    barrier(0);
    for (int stage = 1; stage < program_.stages(); ++stage) {
        once(stage);
        for (int64_t c = 0; c < program_.channels(); c += block_channels_)
            block(stage, c, std::min(block_channels_, program_.channels() - c));
        barrier(stage);
    }
}

template <class T>
void TileRun<T>::once(int stage) {
    for (const TileProgram::Step& step : program_.steps_[static_cast<size_t>(stage)].once) {
        execute(step, 0);
        sink(step.slot, 0);
    }
}

template <class T>
void TileRun<T>::block(int stage, int64_t c, int64_t count) {
    const auto& steps = program_.steps_[static_cast<size_t>(stage)].channel;
    block_start_ = c;
    const bool sinks_given = stage == 0 && program_.given_ >= 0 && sinks_at_once(program_.given_);
    for (int64_t i = c; i < c + count && (sinks_given || !steps.empty()); ++i) {
        if (sinks_given) sink(program_.given_, i);
        for (const TileProgram::Step& step : steps) {
            execute(step, i);
            sink(step.slot, i);
        }
    }
    const auto store_block = [&](int s) {
        const TileProgram::Slot& slot = program_.slots_[static_cast<size_t>(s)];
        const bool given = slot.given && !slot.resident;
        for (int sink : slot.store_sinks) {
            const Placed& to = bound_.stores[static_cast<size_t>(sink)];
            if (waits(s, to))
                store_planes(to, pointer(s, c), given ? given_pitch_ : stride_[static_cast<size_t>(s)], box_of(slot), c,
                             count);
        }
    };
    if (stage == 0 && program_.given_ >= 0) store_block(program_.given_);
    for (const TileProgram::Step& step : steps) store_block(step.slot);
}

template <class T>
void TileRun<T>::barrier(int stage) {
    for (const TileProgram::Step& step : program_.steps_[static_cast<size_t>(stage)].barrier) {
        if (step.kind == TileProgram::Step::Kind::reduce_plane)
            reduce_plane(step, 0);
        else
            reduce(step);
        sink(step.slot, 0);
    }
}

// Planes that lie side by side, and those with channels innermost, are stored when the block is complete.
template <class T>
bool TileRun<T>::waits(int s, const Placed& to) const {
    const TileProgram::Slot& slot = program_.slots_[static_cast<size_t>(s)];
    return !slot.once && (to.channels_innermost() || (slot.given && !slot.resident));
}

template <class T>
bool TileRun<T>::sinks_at_once(int s) const {
    const TileProgram::Slot& slot = program_.slots_[static_cast<size_t>(s)];
    return !slot.grid_sinks.empty() || std::any_of(slot.store_sinks.begin(), slot.store_sinks.end(), [&](int sink) {
        return !waits(s, bound_.stores[static_cast<size_t>(sink)]);
    });
}

// Where a value lies: on the tile, or one number for a plane of it.
template <class T>
Box TileRun<T>::box_of(const TileProgram::Slot& slot) const {
    const Box& box = boxes_[slot.level];
    return slot.uniform ? Box::of(box.n, {0, 0, 0}, {1, 1, 1}) : box;
}

template <class T>
void TileRun<T>::sink(int s, int64_t c) {
    const TileProgram::Slot& slot = program_.slots_[static_cast<size_t>(s)];
    for (int sink : slot.store_sinks) {
        const Placed& to = bound_.stores[static_cast<size_t>(sink)];
        if (!waits(s, to)) store_plane(to, pointer(s, c), box_of(slot), c);
    }
    for (int g : slot.grid_sinks) {
        const GridReduction& reduction = *bound_.reductions[static_cast<size_t>(g)];
        reduction.add(bound_.partials[static_cast<size_t>(g)] + tile_ * reduction.slot_doubles(), box_of(slot), c,
                      pointer(s, c));
    }
}

template <class T>
void TileRun<T>::execute(const TileProgram::Step& step, int64_t c) {
    const TileProgram::Slot& slot = program_.slots_[static_cast<size_t>(step.slot)];
    T* out = pointer(step.slot, c);
    switch (step.kind) {
        case TileProgram::Step::Kind::load: {
            const Placed& from = bound_.reads[static_cast<size_t>(slot.read_index)];
            const Box& box = boxes_[slot.level];
            if (slot.uniform)
                kernels<T>().load(out, from.at(box.n, c, 0, 0, 0), from.storage, 1, 1);
            else
                load_plane(out, from, box, c);
            return;
        }
        case TileProgram::Step::Kind::pool:
            return pool(step, c);
        case TileProgram::Step::Kind::reduce_plane:
            return reduce_plane(step, c);
        default:
            break;
    }
    RowArgs<T> args{out,
                    {nullptr, nullptr, nullptr},
                    {false, false, false},
                    {static_cast<T>(step.function.parameter[0]), static_cast<T>(step.function.parameter[1])},
                    slot.uniform ? 1 : elements(slot.level)};
    for (int a = 0; a < step.arg_count; ++a) {
        args.in[a] = pointer(step.args[a], c);
        args.uniform[a] = program_.slots_[static_cast<size_t>(step.args[a])].uniform;
    }
    kernels<T>().row(step.function.op, args);
}

template <class T>
void TileRun<T>::pool(const TileProgram::Step& step, int64_t c) {
    const Kernels<T>& k = kernels<T>();
    const T* in = pointer(step.args[0], c);
    T* out = pointer(step.slot, c);
    const Box &from = boxes_[0], &to = boxes_[1];
    const auto& window = program_.window_;
    const int kind = step.pool.kind == TilePool::Kind::sum ? 0 : step.pool.kind == TilePool::Kind::max ? 1 : 2;
    const RowOp op = kind == 0 ? RowOp::add : kind == 1 ? RowOp::maximum : RowOp::minimum;
    for (int64_t i = 0; i < to.extent[0]; ++i)
        for (int64_t j = 0; j < to.extent[1]; ++j) {
            // All rows of the window become one, then its neighbours within.
            const auto row = [&](int64_t a, int64_t b) {
                return in + ((i * window[0] + a) * from.extent[1] + j * window[1] + b) * from.pitch;
            };
            const T* merged = row(0, 0);
            for (int64_t a = 0; a < window[0]; ++a)
                for (int64_t b = 0; b < window[1]; ++b) {
                    if (a == 0 && b == 0) continue;
                    k.row(op,
                          {temporary_[0], {merged, row(a, b), nullptr}, {false, false, false}, {0, 0}, from.width()});
                    merged = temporary_[0];
                }
            T* result = out + (i * to.extent[1] + j) * to.pitch;
            k.pool_row(result, merged, window[2], kind, to.width());
            clear_padding(result, to.width());
            if (kind == 0) {
                const T scale = static_cast<T>(step.pool.scale);
                k.row(RowOp::mul, {result, {result, &scale, nullptr}, {false, true, false}, {0, 0}, to.width()});
            }
        }
}

template <class T>
void TileRun<T>::reduce(const TileProgram::Step& step) {
    const Kernels<T>& k = kernels<T>();
    const int64_t channels = program_.channels();
    const int level = program_.slots_[static_cast<size_t>(step.slot)].level;
    const int64_t n = elements(level);
    T* out = pointer(step.slot, 0);
    const auto plane = [&](int64_t c) -> const T* { return pointer(step.args[0], c); };
    const auto fold = [&](RowOp op, T* into) {
        k.row(RowOp::copy, {into, {plane(0), nullptr, nullptr}, {false, false, false}, {0, 0}, n});
        for (int64_t c = 1; c < channels; ++c)
            k.row(op, {into, {into, plane(c), nullptr}, {false, false, false}, {0, 0}, n});
    };
    const auto scale = [&](T* into, double factor) {
        const T f = static_cast<T>(factor);
        k.row(RowOp::mul, {into, {into, &f, nullptr}, {false, true, false}, {0, 0}, n});
    };
    switch (step.reduction) {
        case Op::amax:
            return fold(RowOp::maximum, out);
        case Op::amin:
            return fold(RowOp::minimum, out);
        case Op::logsumexp: {
            T* top = temporary_[0];
            fold(RowOp::maximum, top);
            // Where everything is −∞ (or anything ∞) the top itself is the answer: subtract a finite number there. But
            // not where ∞ shall be NaN: ∞ − ∞ is.
            for (int64_t i = 0; i < n; ++i)
                if (std::isinf(top[i]) && !(step.finite && top[i] > 0))
                    top[i] = std::copysign(std::numeric_limits<T>::max(), top[i]);
            const T zero = 0;
            k.row(RowOp::copy, {out, {&zero, nullptr, nullptr}, {true, false, false}, {0, 0}, n});
            for (int64_t c = 0; c < channels; ++c)
                k.row(RowOp::add_exp, {out, {out, plane(c), top}, {false, false, false}, {0, 0}, n});
            k.row(RowOp::log, {out, {out, nullptr, nullptr}, {false, false, false}, {0, 0}, n});
            k.row(RowOp::add, {out, {out, top, nullptr}, {false, false, false}, {0, 0}, n});
            return;
        }
        case Op::var: {
            T *mean = temporary_[0], *difference = temporary_[1];
            fold(RowOp::add, mean);
            scale(mean, 1.0 / static_cast<double>(channels));
            const T zero = 0;
            k.row(RowOp::copy, {out, {&zero, nullptr, nullptr}, {true, false, false}, {0, 0}, n});
            for (int64_t c = 0; c < channels; ++c) {
                k.row(RowOp::sub, {difference, {plane(c), mean, nullptr}, {false, false, false}, {0, 0}, n});
                k.row(RowOp::square, {difference, {difference, nullptr, nullptr}, {false, false, false}, {0, 0}, n});
                k.row(RowOp::add, {out, {out, difference, nullptr}, {false, false, false}, {0, 0}, n});
            }
            return scale(out, 1.0 / std::max(0.0, static_cast<double>(channels) - step.correction));
        }
        default:
            fold(RowOp::add, out);
            if (step.reduction == Op::mean) scale(out, 1.0 / static_cast<double>(channels));
    }
}

template <class T>
void TileRun<T>::reduce_plane(const TileProgram::Step& step, int64_t c) {
    const Kernels<T>& k = kernels<T>();
    const Box& box = boxes_[0];
    const int64_t first = step.across_channels ? 0 : c, last = step.across_channels ? program_.channels() : c + 1;
    const auto each_row = [&](auto&& f) {
        for (int64_t i = first; i < last; ++i)
            for (int64_t r = 0; r < box.rows(); ++r) f(pointer(step.args[0], i) + r * box.pitch);
    };
    const int64_t n = box.width();
    const double count = static_cast<double>((last - first) * box.rows() * n);
    const auto sum = [&] {
        double total = 0;
        each_row([&](const T* row) { total += k.sum(row, n); });
        return total;
    };
    const auto extreme = [&](bool largest) {
        T best = *pointer(step.args[0], first);
        each_row([&](const T* row) {
            const T pair[2] = {largest ? k.max(row, n) : k.min(row, n), best};
            best = largest ? k.max(pair, 2) : k.min(pair, 2);
        });
        return best;
    };
    double result = 0;
    switch (step.reduction) {
        case Op::amax:
            result = extreme(true);
            break;
        case Op::amin:
            result = extreme(false);
            break;
        case Op::logsumexp: {
            const T top = extreme(true);
            double total = 0;
            if (!std::isinf(top)) each_row([&](const T* row) { total += k.sum_exp(row, top, n); });
            result = std::isinf(top) ? static_cast<double>(top) : top + std::log(total);
            if (step.finite && result == std::numeric_limits<double>::infinity()) result = std::nan("");
            break;
        }
        case Op::var: {
            const double mean = sum() / count, centre = static_cast<T>(mean);
            double total = 0;
            each_row([&](const T* row) { total += k.sum_square(row, centre, n); });
            total -= (mean - centre) * (mean - centre) * count;
            result = total / std::max(0.0, count - step.correction);
            break;
        }
        case Op::mean:
            result = sum() / count;
            break;
        default:
            result = sum();
    }
    *pointer(step.slot, c) = static_cast<T>(result);
}

template class TileRun<float>;
template class TileRun<double>;

}  // namespace transfuse::cpu
