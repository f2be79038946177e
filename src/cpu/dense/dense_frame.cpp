#include "cpu/dense/dense_frame.h"

namespace transfuse::cpu {

template <class T>
DenseFrame<T>::DenseFrame(DenseParts& parts)
    : plan_(parts.plan),
      pass_(parts.pass),
      node_(parts.plan.graph[parts.pass.anchor]),
      program_(std::move(parts.program)),
      prologue_(std::move(parts.prologue)),
      source_(parts.source),
      tail_(parts.plan, parts.pass, true, layout_) {
    if (prologue_) prologue_slot_ = prologue_->slot_of(node_.args[0]);
    const auto reshapes = [&](const Store& store) {
        return store.start.empty() && plan_.graph[store.value].type.shape != plan_.graph[store.target].type.shape;
    };
    if (std::any_of(pass_.stores.begin(), pass_.stores.end(), reshapes)) fallback_ = compile_steps(plan_, pass_);
}

template <class T>
void DenseFrame<T>::lay_out(const Tiling& tiling) {
    for (const TileProgram::GridSink& sink : program_->grids()) {
        Tiling of = tiling;
        if (program_->level(sink.slot) == 1) {
            for (size_t a = 0; a < 3; ++a)
                of.tile[a] = std::max<int64_t>(1, tiling.tile[a] / program_->pool_window()[a]);
            of.grid = program_->pooled();
        }
        reductions_.emplace_back(plan_.graph[sink.value], program_->type(sink.slot), of);
        partials_.push_back(layout_.add(reductions_.back().slots_bytes()));
    }
    bias_ = layout_.add(static_cast<size_t>(node_.type.shape[1] + row_padding) * sizeof(T));
}

template <class T>
void DenseFrame<T>::run(const Run& run) const {
    for (const TileProgram::StoreSink& sink : program_->stores())
        if (run.memory->target(sink.store).shape != program_->type(sink.slot).shape) return fallback_->run(run);
    Call call{run, BoundProgram(*program_, *run.memory), {}, {}, {}, nullptr, nullptr};
    if (prologue_) call.prologue = std::make_unique<BoundProgram>(*prologue_, *run.memory);
    const TensorView source = run.memory->source(source_), w = run.memory->source(node_.args[1]);
    call.x = Placed::under(source, source.shape);
    call.weights = weights_.get(w, run.memory->fixed(node_.args[1]), run.threads, packed_bytes(),
                                [&](void* packed) { pack(w, static_cast<T*>(packed), run.threads); });
    call.packed = static_cast<const T*>(call.weights.get());
    if (node_.args.size() > 2) {
        const int64_t channels = node_.type.shape[1];
        auto* bias = reinterpret_cast<T*>(run.workspace + bias_);
        const TensorView view = run.memory->source(node_.args[2]);
        std::fill_n(bias, channels + row_padding, T(0));
        kernels<T>().load(bias, view.data, static_cast<Storage>(view.dtype), view.strides[0], channels);
        call.bias = bias;
    }
    for (size_t r = 0; r < reductions_.size(); ++r) {
        call.bound.reductions.push_back(&reductions_[r]);
        call.bound.partials.push_back(reinterpret_cast<double*>(run.workspace + partials_[r]));
    }
    compute(call);
    if (call.overflown) return plain_->run(run);
    for (size_t r = 0; r < reductions_.size(); ++r)
        reductions_[r].combine(call.bound.partials[r], tail_.place(run, program_->grids()[r].value), run.threads);
    tail_.run(run);
}

template <class T>
Box DenseFrame<T>::pooled(const Box& box) const {
    if (program_->pool_window() == std::array<int64_t, 3>{1, 1, 1}) return box;
    std::array<int64_t, 3> origin, extent;
    for (size_t a = 0; a < 3; ++a) {
        const int64_t window = program_->pool_window()[a];
        origin[a] = box.origin[a] / window;
        extent[a] = std::min(box.extent[a] / window, program_->pooled()[a + 2] - origin[a]);
    }
    return Box::of(box.n, origin, extent);
}

template class DenseFrame<float>;
template class DenseFrame<double>;

}  // namespace transfuse::cpu
