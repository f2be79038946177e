// A thread's products: it loads what its cells meet, and for each phase multiplies that by the weights of the phase's
// taps.
#include "cuda/plain/cells_writer.h"
#include "cuda/plain/thin.h"

namespace transfuse::cuda {

void CellWriter::write_body() {
    const size_t rank = axes_.size();
    body_.line("__shared__ float4 tf_weights[" + number(cin_ * taps_ * channels_ / 4) +
               "];  // [input channel][tap][channel]");
    body_.line("__shared__ float tf_bias[" + number(channels_) + "];");
    if (!grid_.empty())
        body_.line("__shared__ double tf_parts[" + number(threads / 32) + "][" + number(2 * channels_) + "];");
    body_.line("TF_SEQUENCE();");
    std::string block = "(int)blockIdx.x";
    if (shares() > 1) {
        first_ = let(block + " % " + number(shares()) + " * " + number(own_), "first");
        block = let(block + " / " + number(shares()), "block");
    }
    write_weights();
    const std::string n = let(block + " / " + integer(slices_), "image"),
                      slice = let(block + " % " + integer(slices_), "slice");
    for (ValueId v : grid_) declare(v);
    emitter_.open("for (int pair = " + slice + " * " + number(threads) + " + (int)threadIdx.x; pair < " +
                  integer(pairs_) + "; pair += " + integer(slices_) + " * " + number(threads) + ")");
    std::vector<std::string> u(rank);
    std::string rest = "pair";
    for (size_t a = rank; a-- > 0;) {
        if (a == 0) {
            u[a] = rest;
            break;
        }
        const std::string q = let(kernel_.parameters.quotient(rest, cell_extent_[a], true), "q");
        u[a] = let(kernel_.parameters.remainder(rest, q, cell_extent_[a], true), "u");
        rest = q;
    }
    u[rank - 1] = let(u[rank - 1] + " * " + number(cells), "u");
    load_inputs(n, u);
    if (pool_ >= 0) begin_pool();
    make_phases(n, u);
    if (pool_ >= 0) finish_pool(n, u);
    emitter_.close();
    for (ValueId v : grid_) leave(v, n, slice);
}

// Phase by phase: the products, then the chain on each cell's output.
void CellWriter::make_phases(const std::string& n, const std::vector<std::string>& u) {
    const size_t rank = axes_.size();
    body_.line("#pragma unroll 1");
    emitter_.open("for (int phase = 0; phase < " + number(phase_count_) + "; ++phase)");
    body_.line("asm volatile(\"\" ::: \"memory\");  // weights are loaded here and not kept: there are too many");
    body_.line("float sums[" + number(cells) + "][" + number(channels_) + "] = {};");
    body_.open("switch (phase)");
    for (int64_t phase = 0; phase < phase_count_; ++phase) multiply(phase);
    body_.close();
    std::vector<std::string> r(rank);
    std::string of = "phase";
    for (size_t a = rank; a-- > 0;) {
        r[a] = axes_[a].up == 1 ? "0" : a == 0 ? of : let(of + " % " + number(axes_[a].up), "r");
        if (axes_[a].up > 1 && a > 0) of = let(of + " / " + number(axes_[a].up), "r");
    }
    body_.line("#pragma unroll");
    emitter_.open("for (int q = 0; q < " + number(cells) + "; ++q)");
    Index at = {{n}, {"0"}};
    std::string inside;
    for (size_t a = 0; a < rank; ++a) {
        const std::string cell = a + 1 == rank ? "(" + u[a] + " + q)" : u[a];
        at.push_back({let(plus(times(cell, number(axes_[a].up)), r[a]), "o")});
        inside += (a ? " && " : "") + at.back().text + " < " + integer(axes_[a].out);
    }
    emitter_.open("if (" + inside + ")");
    chain(anchor_, "sums[q][c] + tf_bias[c]", early_, early_grid_, early_sinks_, at);
    if (pool_ >= 0) collect();
    emitter_.close();
    emitter_.close();
    emitter_.close();
}

void CellWriter::write_weights() {
    stage_weights(emitter_, w_, axes_, {channels_, cout_, threads, first_.empty() ? "0" : first_},
                  number(cin_ * taps_ * channels_));
    emitter_.open("if ((int)threadIdx.x < " + number(channels_) + ")");
    body_.line("float bias = 0.0f;");
    if (bias_ >= 0) {
        emitter_.open("if ((int)threadIdx.x < " + number(own_) + ")");
        body_.line("bias = (float)" + emitter_.value(bias_, {{of_all("(int)threadIdx.x")}})[0] + ";");
        emitter_.close();
    }
    body_.line("tf_bias[threadIdx.x] = bias;");
    emitter_.close();
    body_.line("__syncthreads();");
}

// All inputs the two cells meet.
void CellWriter::load_inputs(const std::string& n, const std::vector<std::string>& u) {
    const size_t rank = axes_.size();
    std::string extents = "[" + number(cin_) + "]";
    for (int64_t reach : reach_) extents += "[" + number(reach) + "]";
    body_.line("float x" + extents + ";");
    std::string element = "x[ci]";
    body_.line("#pragma unroll");
    emitter_.open("for (int ci = 0; ci < " + number(cin_) + "; ++ci)");
    Index at = {{n}, {"ci"}};
    std::string inside;
    for (size_t a = 0; a < rank; ++a) {
        const std::string s = "s" + number(static_cast<int64_t>(a));
        body_.line("#pragma unroll");
        emitter_.open("for (int " + s + " = 0; " + s + " < " + number(reach_[a]) + "; ++" + s + ")");
        at.push_back({let(plus(u[a], s) + " + " + number(least_[a]), "i")});
        inside += (a ? " && " : "") + at.back().text + " >= 0 && " + at.back().text + " < " + integer(axes_[a].in);
        element += "[" + s + "]";
    }
    body_.line(element + " = 0.0f;");
    emitter_.open("if (" + inside + ")");
    body_.line(element + " = (float)" + emitter_.value(x_, at)[0] + ";");
    emitter_.close();
    for (size_t a = 0; a <= rank; ++a) emitter_.close();
}

void CellWriter::multiply(int64_t phase) {
    const size_t rank = axes_.size();
    std::vector<const std::vector<PhaseTap>*> own(rank);
    int64_t rest = phase;
    for (size_t a = rank; a-- > 0;) {
        own[a] = &phases_[a][static_cast<size_t>(rest % axes_[a].up)];
        rest /= axes_[a].up;
    }
    body_.open("case " + number(phase) + ":");
    int64_t count = 1;
    for (const auto* list : own) count *= static_cast<int64_t>(list->size());
    if (count > 0) {
        body_.line("#pragma unroll");
        body_.open("for (int ci = 0; ci < " + number(cin_) + "; ++ci)");
        body_.line("#pragma unroll");
        body_.open("for (int c = 0; c < " + number(channels_ / 4) + "; ++c)");
        for (int64_t i = 0; i < count; ++i) {
            int64_t at = i, tap = 0;
            std::vector<PhaseTap> met(rank);
            for (size_t a = rank; a-- > 0;) {
                met[a] = (*own[a])[static_cast<size_t>(at) % own[a]->size()];
                at /= static_cast<int64_t>(own[a]->size());
            }
            std::string x = "x[ci]";
            for (size_t a = 0; a < rank; ++a) {
                tap = tap * axes_[a].taps + met[a].tap;
                x += "[" + number(met[a].shift - least_[a]) + (a + 1 == rank ? " + q]" : "]");
            }
            body_.line("{ const float4 v = tf_weights[(ci * " + number(taps_) + " + " + number(tap) + ") * " +
                       number(channels_ / 4) + " + c];");
            body_.line("  _Pragma(\"unroll\") for (int q = 0; q < " + number(cells) + "; ++q) { const float y = " + x +
                       "; sums[q][4 * c] += v.x * y; sums[q][4 * c + 1] += v.y * y; sums[q][4 * c + 2] += v.z * y; "
                       "sums[q][4 * c + 3] += v.w * y; } }");
        }
        body_.close();
        body_.close();
    }
    body_.line("break;");
    body_.close();
}

}  // namespace transfuse::cuda
