#include "cuda/dense/exits/accumulators/fragment_sums.h"

#include <algorithm>

#include "cuda/kernel/expression.h"

namespace transfuse::cuda {

static bool is_one_number(const Partial& p) { return p.reduction.op != Op::var && p.reduction.op != Op::logsumexp; }
static Op joining(const Partial& p) { return p.reduction.op == Op::mean ? Op::sum : p.reduction.op; }

FragmentSums::FragmentSums(const Epilogue& epilogue, Lines& lines)
    : epilogue_(epilogue),
      t(lines),
      are_sums_(std::all_of(epilogue.partials().begin(), epilogue.partials().end(),
                            [](const Partial& p) { return is_one_number(p) && joining(p) == Op::sum; })) {}

void FragmentSums::declare(const std::string& name) {
    t.line("REAL " + name + "[RESULT_ROWS][STATS]" + (are_sums_ ? " = {};" : ";"));
}

void FragmentSums::clear(const std::string& name) {
    if (!are_sums_) t.line("clear(" + name + ");");
}

void FragmentSums::functions() {
    if (are_sums_) return;
    t.line("__device__ __forceinline__ void clear(REAL (&to)[RESULT_ROWS][STATS]) {");
    t.unrolled("for (int i = 0; i < RESULT_ROWS; i++) {");
    each([&](const Partial& p, const std::string& k) {
        t.line("to[i][" + k + "] = " + identity(p.reduction.op) + ";");
        if (p.reduction.op == Op::var) t.line("to[i][" + k + " + 1] = to[i][" + k + " + 2] = 0;");
        if (p.reduction.op == Op::logsumexp) t.line("to[i][" + k + " + 1] = 0;");
    });
    t.line("}");
    t.line("}");
}

// All statistics of a result at once, so that it is asked once whether it is inside.
void FragmentSums::add(Chain& chain, const std::string& inside, const std::string& row, const std::string& mask) {
    const std::string part = "parts[" + row + "]";
    std::vector<std::string> values;
    bool one_number = false;
    each([&](const Partial& p, const std::string&) {
        values.push_back(chain.operand(p.reduction.of)), one_number |= is_one_number(p);
    });
    size_t n = 0;
    if (one_number) {
        t.unrolled("for (int e = 0; e < VECTOR; e++)");
        t.unrolled("for (int i = 0; i < BATCH; i++)");
        t.line("if (" + inside + ") {");
        each([&](const Partial& p, const std::string& k) {
            const std::string to = part + "[" + k + "]", value = values[n++];
            if (is_one_number(p)) t.line(to + " = " + combined(joining(p), to, value) + ";");
        });
        t.line("}");
    }
    n = 0;
    each([&](const Partial& p, const std::string& k) {
        const std::string value = values[n++];
        if (p.reduction.op == Op::logsumexp) add_exponentials(part, k, value, inside);
        if (p.reduction.op == Op::var) add_moments(part, k, value, mask);
    });
}

// Exponentials relative to the largest value: of those before and of these. Outside the output it is as if there were
// the lowest: a choice of values compiles in half the time that as many branches take.
void FragmentSums::add_exponentials(const std::string& part, const std::string& k, const std::string& value,
                                    const std::string& inside) {
    const std::string top = part + "[" + k + "]", mass = part + "[" + k + " + 1]",
                      each = "for (int e = 0; e < VECTOR; e++) ";
    t.unrolled("for (int i = 0; i < BATCH; i++) {");
    t.line("REAL now = " + top + ", sum = 0, here[VECTOR];");
    t.unrolled(each + "now = tf_max(now, here[e] = " + inside + " ? " + value + " : __int_as_float(0xff800000));");
    t.line("const REAL below = now == __int_as_float(0xff800000) ? (REAL)0 : now;");
    t.unrolled(each + "sum += tf_exp_below(here[e], below);");
    t.line(mass + " = " + mass + " * tf_exp_below(" + top + ", below) + sum;");
    t.line(top + " = now;");
    t.line("}");
}

// Squares about the lane's own mean, joined with what there is.
void FragmentSums::add_moments(const std::string& part, const std::string& k, const std::string& value,
                               const std::string& mask) {
    t.unrolled("for (int i = 0; i < BATCH; i++) {");
    t.line("REAL sum = 0, squares = 0;");
    t.unrolled("for (int e = 0; e < VECTOR; e++) if (" + mask + " >> e & 1) sum += " + value + ";");
    t.line("const REAL n = __popcll(" + mask + "), mean = n > 0 ? sum / n : (REAL)0;");
    t.unrolled("for (int e = 0; e < VECTOR; e++) if (" + mask + " >> e & 1) squares += (" + value + " - mean) * (" +
               value + " - mean);");
    t.line("tf_join_moments(" + part + "[" + k + "], " + part + "[" + k + " + 1], " + part + "[" + k +
           " + 2], n, mean, squares);");
    t.line("}");
}

void FragmentSums::join(const std::string& to, const Other& other) {
    if (!are_sums_) return each([&](const Partial& p, const std::string& k) { join_one(p, k, to, other); });
    t.unrolled("for (int k = 0; k < STATS; k++) " + to + "[k] += " + other("k") + ";");
}

void FragmentSums::join_one(const Partial& p, const std::string& k, const std::string& to, const Other& other) {
    const std::string one = to + "[" + k + "]", next = to + "[" + k + " + 1]", last = to + "[" + k + " + 2]";
    if (p.reduction.op == Op::var)
        t.line("tf_join_moments(" + one + ", " + next + ", " + last + ", " + other(k) + ", " + other(k + " + 1") +
               ", " + other(k + " + 2") + ");");
    else if (p.reduction.op == Op::logsumexp)
        t.line("join_exponentials(" + one + ", " + next + ", " + other(k) + ", " + other(k + " + 1") + ");");
    else
        t.line(one + " = " + combined(joining(p), one, other(k)) + ";");
}

}  // namespace transfuse::cuda
