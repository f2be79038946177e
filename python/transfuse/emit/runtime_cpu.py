"""What every file for CPUs has: two kernels in C++, and the Python functions that call them."""

SOURCE = r"""
#include <algorithm>
#include <numeric>
#include <vector>

#ifdef __AVX512F__
constexpr int REGISTER = 64;   // bytes
#elif defined(__AVX__)
constexpr int REGISTER = 32;
#else
constexpr int REGISTER = 16;
#endif

// Output o, input i and tap k belong together where down * o + offset = up * i + dil * k along each of three axes.
struct Lattice { long long batch, groups, cin, cout, in[3], out[3], taps[3], up[3], down[3], dil[3], offset[3]; };

// Where a tap meets the input: the first place and the step from one output of a phase to the next; false: never.
static bool met(const Lattice& g, int a, long long o, long long k, long long& i) {
    i = g.down[a] * o + g.offset[a] - g.dil[a] * k;
    if (i % g.up[a] != 0) return false;
    i /= g.up[a];
    return true;
}

// A blocked matrix product for each output row: weights times a patch whose rows are taps and channels, whose columns are outputs.
// Outputs whose places differ by a multiple of the stride (a phase) meet the same taps, so no product is with an inserted zero.
template <class T> static void convolve(const T* x, const T* w, const T* bias, T* y, const Lattice& g) {
    constexpr int ROWS = 4, WIDE = 64 / sizeof(T), CHAIN = 64;   // channels and columns of a block; products in one chain of additions
    typedef T Vector __attribute__((vector_size(REGISTER), aligned(sizeof(T)), may_alias));
    constexpr int PARTS = 64 / REGISTER, LANES = WIDE / PARTS;   // registers of a row of the block
    const long long taps = g.taps[0] * g.taps[1] * g.taps[2], blocks = (g.cout + ROWS - 1) / ROWS, depth = taps * g.cin;
    const long long phases = g.up[2] / std::gcd(g.up[2], g.down[2]), step = g.down[2] * phases / g.up[2];
    std::vector<T> packed(g.groups * blocks * depth * ROWS);   // [group][block][tap][channel][ROWS]
    for (long long at = 0; at < (long long)packed.size(); at++) {
        const long long row = at % ROWS, ci = at / ROWS % g.cin, k = at / ROWS / g.cin % taps, block = at / ROWS / depth % blocks;
        const long long group = at / ROWS / depth / blocks, co = block * ROWS + row;
        packed[at] = co < g.cout ? w[((group * g.cin + ci) * g.cout + co) * taps + k] : T(0);
    }
    const long long columns = (g.out[2] + phases - 1) / phases, pitch = (columns + WIDE - 1) / WIDE * WIDE;
#pragma omp parallel
    {
        std::vector<T> patch(depth * pitch);   // [block of columns][tap][channel][WIDE]
        std::vector<long long> used;   // taps that meet the input
#pragma omp for schedule(dynamic, 4)
        for (long long line = 0; line < g.batch * g.groups * g.out[0] * g.out[1]; line++) {
            const long long oh = line % g.out[1], od = line / g.out[1] % g.out[0], image = line / g.out[1] / g.out[0];
            const long long group = image % g.groups;
            for (long long phase = 0; phase < std::min(phases, g.out[2]); phase++) {
                used.clear();
                for (long long k = 0; k < taps; k++) {
                    long long d, h, first;
                    if (!met(g, 0, od, k / (g.taps[1] * g.taps[2]), d) || d < 0 || d >= g.in[0]) continue;
                    if (!met(g, 1, oh, k / g.taps[2] % g.taps[1], h) || h < 0 || h >= g.in[1]) continue;
                    if (!met(g, 2, phase, k % g.taps[2], first)) continue;
                    for (long long ci = 0; ci < g.cin; ci++) {
                        const T* from = x + (((image * g.cin + ci) * g.in[0] + d) * g.in[1] + h) * g.in[2];
                        T* to = patch.data() + (used.size() * g.cin + ci) * WIDE;
                        for (long long u = 0; u < pitch; u++) {
                            const long long i = first + step * u;
                            to[u / WIDE * (depth * WIDE) + u % WIDE] = i >= 0 && i < g.in[2] ? from[i] : T(0);
                        }
                    }
                    used.push_back(k);
                }
                for (long long u = 0; u < columns; u += WIDE)
                    for (long long block = 0; block < blocks; block++) {
                        Vector total[ROWS][PARTS] = {};
                        for (size_t t = 0; t < used.size(); t++)
                            for (long long c = 0; c < g.cin; c += CHAIN) {
                                const T* row = patch.data() + u * depth + (t * g.cin + c) * WIDE;
                                const T* by = packed.data() + (((group * blocks + block) * taps + used[t]) * g.cin + c) * ROWS;
                                Vector sum[ROWS][PARTS] = {};
                                for (long long i = std::min<long long>(CHAIN, g.cin - c); i > 0; i--, row += WIDE, by += ROWS) {
#pragma GCC unroll 16
                                    for (int part = 0; part < PARTS; part++) {
                                        const Vector values = *(const Vector*)(row + part * LANES);
#pragma GCC unroll 16
                                        for (int r = 0; r < ROWS; r++) sum[r][part] += by[r] * values;
                                    }
                                }
#pragma GCC unroll 16
                                for (int i = 0; i < ROWS * PARTS; i++) total[i / PARTS][i % PARTS] += sum[i / PARTS][i % PARTS];
                            }
                        for (long long co = block * ROWS; co < std::min(g.cout, (block + 1) * ROWS); co++)
                            for (int v = 0; v < WIDE && (u + v) * phases + phase < g.out[2]; v++)
                                y[(((image * g.cout + co) * g.out[0] + od) * g.out[1] + oh) * g.out[2] + (u + v) * phases + phase] =
                                    total[co % ROWS][v / LANES][v % LANES] + (bias ? bias[group * g.cout + co] : T(0));
                    }
            }
        }
    }
}

// Sums over boxes of up to three axes; a kept axis has no ranges. The result: [plane][box][kept axes].
struct Boxes { long long planes, in[3], counts[3]; };
template <class T> static void sum_boxes(const T* x, const long long* ranges, double* y, const Boxes& g) {
    long long boxes = 1, kept = 1;
    for (int a = 0; a < 3; a++) g.counts[a] ? boxes *= g.counts[a] : kept *= g.in[a];
#pragma omp parallel for schedule(dynamic, 1)
    for (long long plane = 0; plane < g.planes; plane++)
        for (long long box = 0; box < boxes; box++) {
            long long lo[3], hi[3], step[3], rest = box, first = 0;
            for (int a = 2; a >= 0; a--) {
                const long long* of = ranges;
                for (int b = 0; b < a; b++) of += 3 * g.counts[b];
                lo[a] = 0, hi[a] = g.in[a] - 1, step[a] = 1;
                if (g.counts[a]) of += rest % g.counts[a] * 3, rest /= g.counts[a], lo[a] = of[0], hi[a] = of[1], step[a] = of[2];
            }
            double* to = y + (plane * boxes + box) * kept;
            std::fill(to, to + kept, 0.0);
            for (long long d = lo[0]; d <= hi[0]; d += step[0])
                for (long long h = lo[1]; h <= hi[1]; h += step[1]) {
                    const T* row = x + ((plane * g.in[0] + d) * g.in[1] + h) * g.in[2];
                    first = ((g.counts[0] ? 0 : d) * (g.counts[1] ? 1 : g.in[1]) + (g.counts[1] ? 0 : h)) * (g.counts[2] ? 1 : g.in[2]);
                    if (g.counts[2]) {
                        double sums[8] = {};   // several chains, so that additions need not wait for each other
                        long long w = lo[2];
                        for (; step[2] == 1 && w + 8 <= hi[2] + 1; w += 8)
                            for (int v = 0; v < 8; v++) sums[v] += row[w + v];
                        for (; w <= hi[2]; w += step[2]) sums[0] += row[w];
                        for (double sum : sums) to[first] += sum;
                    } else {
                        for (long long w = 0; w < g.in[2]; w++) to[first + w] += row[w];
                    }
                }
        }
}

extern "C" {
void lattice_float(const float* x, const float* w, const float* bias, float* y, const Lattice* g) { convolve(x, w, bias, y, *g); }
void lattice_double(const double* x, const double* w, const double* bias, double* y, const Lattice* g) { convolve(x, w, bias, y, *g); }
void boxes_float(const float* x, const long long* ranges, double* y, const Boxes* g) { sum_boxes(x, ranges, y, *g); }
void boxes_double(const double* x, const long long* ranges, double* y, const Boxes* g) { sum_boxes(x, ranges, y, *g); }
}
"""

RUNTIME = '''
REAL = {torch.float32: "float", torch.float64: "double"}


@functools.cache
def kernels():
    """Compiled on first use, later found in torch's extension cache. No torch headers: it takes seconds."""
    flags = ["-O3", "-march=native", "-fopenmp", "-fno-math-errno"]
    path = load_inline(
        name="transfuse_cpu_" + hashlib.sha256(SOURCE.encode()).hexdigest()[:12], cpp_sources=SOURCE, extra_cflags=flags,
        extra_ldflags=["-fopenmp"], is_python_module=False, no_implicit_headers=True,
    )  # fmt: skip
    return ctypes.CDLL(path)


def call(name, dtype, *given):
    """Tensors by address (None: null), lists of whole numbers as arrays."""
    words = []
    for value in given:
        if isinstance(value, list):
            words.append((ctypes.c_longlong * len(value))(*value))
        else:
            words.append(ctypes.c_void_p(None if value is None else value.data_ptr()))
    kernels()[f"{name}_{REAL[dtype]}"](*words)


def three(values, fill):
    return [fill] * (3 - len(values)) + list(values)


def lattice(x, w, bias, groups, up, down, dil, offset, out):
    """Along each axis output o, input i and tap k belong together where down * o + offset = up * i + dil * k."""
    dtype = x.dtype if x.dtype in REAL else torch.float32
    if w.shape[1] * math.prod(w.shape[3:]) <= 64:  # short sums, in PyTorch as good as exact
        dtype = torch.float64
    x, w, bias = (None if t is None else t.to(dtype).contiguous() for t in (x, w, bias))
    y = x.new_empty(x.shape[0], groups * w.shape[2], *out)
    axes = [n for values in (x.shape[2:], out, w.shape[3:], up, down, dil) for n in three(values, 1)] + three(offset, 0)
    call("lattice", dtype, x, w, bias, y, [x.shape[0], groups, w.shape[1], w.shape[2], *axes])
    return y


def box_sums(x, dims, ranges):
    """[n, c, ...] -> [n, c * boxes, ...] in double: sums over boxes of the axes `dims`, each a (first, last, step) along every axis."""
    dtype = x.dtype if x.dtype in REAL else torch.float32
    x, axes = x.to(dtype).contiguous(), x.dim() - 2
    counts = [len(ranges[dims.index(2 + a)]) if 2 + a in dims else 0 for a in range(axes)]
    kept = [1 if counts[a] else x.shape[2 + a] for a in range(axes)]
    y = x.new_empty(x.shape[0], x.shape[1] * math.prod(c or 1 for c in counts), *kept, dtype=torch.float64)
    numbers = [x.shape[0] * x.shape[1], *three(x.shape[2:], 1), *three(counts, 0)]
    call("boxes", dtype, x, [n for axis in ranges for item in axis for n in item], y, numbers)
    return y


def taps(w, axis, rows):
    """w'[r] = the sum of rows[r][k] * w[k] along an axis."""
    return (w.movedim(axis, -1) @ w.new_tensor(rows).T).movedim(-1, axis)


def elsewhere(device):
    return None if device.type == "cpu" else f"the kernels are for CPUs, the tensors are on {device}"


def plan_of(call, kind, leaves, sizes):
    """Calls with gradients have the plan of those without."""
    plan, _ = (None, None) if kind[0] == "gradients" else call.kinds["inference",]
    if plan is None:
        left(f"gradients of {call.name}" if kind[0] == "gradients" else f"{call.name}, for which the file has no kernels")
    return plan


def run(name, leaves):
    function, dtypes = PLANS[name]
    return [y.to(dtype) for y, dtype in zip(function(*leaves), dtypes)]
'''

# PyTorch's on CPUs leaves statistics of 16 bits in 16 bits.
BATCH_NORM = '''
def batch_norm(x, weight, bias, eps):
    """In training: the result, the batch's mean and its unbiased variance, of 16 bits in fp32."""
    wide = torch.promote_types(x.dtype, torch.float32)
    given, own = [t if t is None else t.to(wide) for t in (x, weight, bias)], x.new_zeros(2, x.shape[1], dtype=wide).unbind()
    return torch.ops.aten.batch_norm(*given, *own, True, 1.0, eps, False).to(x.dtype), *own
'''
