// The reference engine on raw memory: any strides, any dtype, rounded as typed after every op.
#include "reference/element.h"
#include "reference/evaluate.h"
#include "transfuse/error.h"

namespace transfuse {

namespace {

// The stride of an axis of extent 1 is never used, and none is in an empty tensor.
bool same_layout(const Sizes& shape, const Sizes& given, const Sizes& expected) {
    if (given.size() != shape.size()) return false;
    if (numel(shape) == 0) return true;
    for (size_t axis = 0; axis < shape.size(); ++axis)
        if (shape[axis] != 1 && given[axis] != expected[axis]) return false;
    return true;
}

class ReferenceExecutable final : public Executable {
public:
    ReferenceExecutable(Plan plan, CompileOptions options) : plan_(std::move(plan)), options_(std::move(options)) {
        check_count("leaf_strides", options_.leaf_strides.size(), plan_.graph.leaves().size());
        check_count("output_strides", options_.output_strides.size(), plan_.graph.outputs().size());
    }

    size_t workspace_bytes() const override { return 0; }
    size_t kept_bytes() const override { return sizeof *this + plan_.bytes(); }

    void run(std::span<const TensorView> leaves, std::span<const TensorView> outputs, const RunContext&) override {
        check("leaf", leaves, plan_.graph.leaves(), options_.leaf_strides);
        check("output", outputs, plan_.graph.outputs(), options_.output_strides);
        std::vector<std::vector<double>> values;
        for (const TensorView& leaf : leaves) values.push_back(reference::load(leaf));
        values = evaluate(plan_, values, Arithmetic::as_typed);
        for (size_t i = 0; i < outputs.size(); ++i) reference::store(outputs[i], values[i]);
    }

    std::string describe() const override {
        return "reference: " + std::to_string(plan_.passes.size()) +
               " passes in float64, rounded to each value's dtype";
    }

private:
    static void check_count(std::string_view what, size_t given, size_t expected) {
        if (given != 0 && given != expected)
            fail("compile: ", what, " must have ", expected, " entries or none, got ", given);
    }

    void check(std::string_view what, std::span<const TensorView> views, const std::vector<ValueId>& ids,
               const std::vector<Sizes>& strides) const {
        if (views.size() != ids.size())
            fail("run: expected ", ids.size(), " tensors, one for each ", what, ", got ", views.size());
        for (size_t i = 0; i < views.size(); ++i) {
            const Type& type = plan_.graph[ids[i]].type;
            const Type given{views[i].dtype, views[i].shape};
            if (given != type) fail("run: ", what, " ", i, " must be ", to_string(type), ", got ", to_string(given));
            const Sizes expected = strides.empty() ? contiguous_strides(type.shape) : strides[i];
            if (!same_layout(type.shape, views[i].strides, expected))
                fail("run: ", what, " ", i, " must have strides ", to_string(expected), ", got ",
                     to_string(views[i].strides));
            if (!views[i].data && numel(type.shape) > 0) fail("run: ", what, " ", i, " has no data");
        }
    }

    Plan plan_;
    CompileOptions options_;
};

}  // namespace

std::unique_ptr<Executable> compile_reference(const Plan& plan, const CompileOptions& options) {
    return std::make_unique<ReferenceExecutable>(plan, options);
}

}  // namespace transfuse
