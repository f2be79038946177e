// Folds of linear interpolation: the two neighbours of a place along each axis; and of its transpose: the outputs that
// meet an input. Places are found in double precision, as float would be off by part of an element in long rows.
#include "cuda/general/emit/emitter.h"
#include "graph/interpolation.h"

namespace transfuse::cuda {

namespace {

// The neighbours of output o: the first one's index, and the weight of the second.
struct Between {
    std::string first, weight;
};

struct Axis {
    std::string in, out, step;
    bool corners;

    Between between(Emitter& emitter, const std::string& o) const {
        std::string source = step + " * (double)" + o;
        if (!corners) {
            source = emitter.let("double", {step, " * ((double)", o, " + 0.5) - 0.5"}, "s");
            source = "(" + source + " > 0 ? " + source + " : 0)";
        }
        source = emitter.let("double", source, "s");
        const std::string first =
            emitter.let("tf_index", {"min((tf_index)", source, ", (tf_index)(", in, " - 1))"}, "i");
        const std::string weight = emitter.let("double", {source, " - (double)", first}, "w");
        return {first, emitter.let("double", {"(", weight, " < 1 ? ", weight, " : 1)"}, "w")};
    }
};

std::vector<Axis> axes_of(Emitter& emitter, const Graph& graph, ValueId id, ValueId x, ValueId y) {
    std::vector<Axis> axes;
    size_t a = 2;
    for (const Interpolation& axis : interpolations(graph[id], graph[x].type.shape, graph[y].type.shape)) {
        const std::string step = emitter.let("double", emitter.parameters().real(axis.step, true), "s");
        axes.push_back({emitter.extent(x, a), emitter.extent(y, a), step, axis.corners});
        ++a;
    }
    return axes;
}

Lanes weighted(Emitter& emitter, const Lanes& value, const std::string& weight) {
    const std::string real(real_name(value.real));
    return {{emitter.let(real, {value.text[0], " * (", real, ")(", weight, ")"}, "v")}, {}, value.real};
}

}  // namespace

Fold Emitter::interpolation_fold(ValueId id, const Index& index) {
    const ValueId x = graph_[id].args[0];
    std::vector<Axis> axes = axes_of(*this, graph_, id, x, id);
    std::vector<Between> near;
    Fold fold;
    for (size_t a = 0; a < axes.size(); ++a) {
        near.push_back(axes[a].between(*this, index[a + 2].text));
        fold.loops.push_back({2, false});
    }
    fold.term = [this, x, index, axes, near](const std::vector<Coordinate>& loop,
                                             const std::function<void(const Lanes&)>& take) {
        Index at = index;
        std::string weight;
        for (size_t a = 0; a < axes.size(); ++a) {
            const std::string& k = loop[a].text;
            at[a + 2] =
                let_index("min(" + near[a].first + " + (tf_index)" + k + ", (tf_index)(" + axes[a].in + " - 1))");
            weight +=
                (weight.empty() ? "" : " * ") + ("(" + k + " ? " + near[a].weight + " : 1 - " + near[a].weight + ")");
        }
        take(weighted(*this, value(x, at), weight));
    };
    fold.finish = [this, id](const Lanes& folded) { return in_type_of(id, folded); };
    return fold;
}

Fold Emitter::interpolation_grad_fold(ValueId id, const Index& index) {
    const ValueId g = graph_[id].args[0];
    const std::vector<Interpolation> interpolated =
        interpolations(graph_[id], graph_[id].type.shape, graph_[g].type.shape);
    std::vector<Axis> axes = axes_of(*this, graph_, id, id, g);
    std::vector<std::string> from;
    Fold fold;
    for (size_t a = 0; a < axes.size(); ++a) {
        // The first output whose source is beyond the neighbour before; one less, as divisions round.
        const std::string& i = index[a + 2].text;
        const std::string place = axes[a].corners ? "((double)" + i + " - 1) / " + axes[a].step
                                                  : "((double)" + i + " - 0.5) / " + axes[a].step + " - 0.5";
        const std::string first = let("double", "(" + axes[a].step + " > 0 ? " + place + " - 1 : 0)", "s");
        from.push_back(let("tf_index", {"(", first, " > 0 ? (tf_index)", first, " : 0)"}, "i"));
        fold.loops.push_back({interpolated[a].reach(), true});
    }
    fold.term = [this, g, index, axes, from](const std::vector<Coordinate>& loop,
                                             const std::function<void(const Lanes&)>& take) {
        Index at = index;
        std::string weight, inside;
        for (size_t a = 0; a < axes.size(); ++a) {
            const std::string& i = index[a + 2].text;
            at[a + 2] = let_index(plus(from[a], loop[a].text));
            const Between near = axes[a].between(*this, at[a + 2].text);
            const std::string second = "min(" + near.first + " + 1, (tf_index)(" + axes[a].in + " - 1))";
            const std::string own = let("double",
                                        "(" + near.first + " == " + i + " ? 1 - " + near.weight + " : 0) + (" + second +
                                            " == " + i + " ? " + near.weight + " : 0)",
                                        "w");
            weight += (weight.empty() ? "" : " * ") + own;
            inside += (inside.empty() ? "" : " && ") + at[a + 2].text + " < " + axes[a].out + " && " + own + " != 0";
        }
        open({"if (", inside, ")"});
        take(weighted(*this, value(g, at), weight));
        close();
    };
    fold.finish = [this, id](const Lanes& folded) { return in_type_of(id, folded); };
    return fold;
}

}  // namespace transfuse::cuda
