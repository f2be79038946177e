"""Emitted files run on the CPU: kernels and the host code that launches them are compiled by the C++ compiler beside
tests/cuda_host, where the threads of a block are fibers and tensor cores, barriers and bulk copies are functions."""

import copy
import ctypes
import re
import shutil
import subprocess

import pytest
import torch

from emitted import file_of, namespace, root

# What the shim has not: the runtime's launches, and instructions that the text names itself.
RUNTIME = r"""
#include "shim.h"
struct Bfloat {
    unsigned short bits;
    Bfloat() = default;
    Bfloat(float f) { unsigned u; memcpy(&u, &f, 4); bits = (u + 0x7fff + (u >> 16 & 1)) >> 16; }
    operator float() const { const unsigned u = bits << 16; float f; memcpy(&f, &u, 4); return f; }
};
#define STORED @STORED@
#define __constant__ static
typedef void* cudaStream_t;
struct dim3 { unsigned x; dim3(unsigned n) : x(n) {} };
struct Value { int programmaticStreamSerializationAllowed; struct { unsigned x, y, z; } clusterDim; };
struct cudaLaunchAttribute { int id; Value val; };
enum { cudaLaunchAttributeProgrammaticStreamSerialization, cudaLaunchAttributeClusterDimension,
       cudaFuncAttributeMaxDynamicSharedMemorySize };
struct cudaLaunchConfig_t { dim3 grid, block; size_t shared; cudaStream_t stream; cudaLaunchAttribute* attributes; unsigned count; };
static int cudaGetLastError() { return 0; }
template <class F> void cudaFuncSetAttribute(F, int, int) {}
template <class... P> void cudaLaunchKernelEx(const cudaLaunchConfig_t* c, void (*kernel)(P...), P... a) {
    const bool cluster = c->count > 1 && c->attributes[1].val.clusterDim.x > 1;  // of the whole grid
    tf_share(c->shared);
    run_grid((int)c->grid.x, (int)c->block.x, true, cluster, [=] { kernel(a...); });
}
// What a tensor-core kernel asks of the machine.
#define __CUDA_ARCH_FEAT_SM90_ALL
typedef unsigned long long Barrier;
static void barrier_init(Barrier& b, int arrivals) { barrier_init(shared_address(&b), arrivals); }
static bool barrier_done(Barrier& b, int parity) { return barrier_done(shared_address(&b), parity); }
static void barrier_wait(Barrier& b, int parity) { barrier_wait(shared_address(&b), parity); }
static void barrier_arrive(Barrier& b) { barrier_arrive(shared_address(&b)); }
static long long owed;  // bytes of the last expectation that no copy has brought: copies follow before anybody else runs
// Barriers by their address in shared memory, as generators write them, or by reference, as brief texts do.
static void barrier_expect(unsigned b, int bytes) { owed ? abort() : void(owed = bytes); barrier_arrive(b); }
static void barrier_expect(Barrier& b, int bytes) { barrier_expect(shared_address(&b), bytes); }
static void barrier_named(int id) { barrier_named(id, 128); }
static void barrier_fence() {}
static void fence_proxy() {}
static void copy_bulk(unsigned to, const void* from, int bytes, unsigned) { owed -= bytes, copy_bytes(to, from, true, bytes); }
static void copy_bulk(unsigned to, const void* from, int bytes, Barrier&) { copy_bulk(to, from, bytes, 0u); }
static void copy_bulk(void* to, const void* from, int bytes, Barrier& b) { copy_bulk(shared_address(to), from, bytes, b); }
static void copy_4(void* to, const void* from, bool inside = true) { copy_4(shared_address(to), from, inside); }
static void copy_8(void* to, const void* from, bool inside = true) { copy_8(shared_address(to), from, inside); }
static void copy_16(void* to, const void* from, bool inside = true) { copy_16(shared_address(to), from, inside); }
struct TensorMap { HostBoxes boxes; };
static void copy_box(unsigned to, const TensorMap* map, int a, int b, int c, int d, int e, unsigned) {
    long long bytes = map->boxes.element;
    for (int extent : map->boxes.box) bytes *= extent;
    owed -= bytes, copy_host_box(to, map->boxes, {a, b, c, d, e});
}
static void copy_box(unsigned to, const TensorMap* map, int a, int b, int c, int d, int e, Barrier&) {
    copy_box(to, map, a, b, c, d, e, 0u);
}
static void copy_box(void* to, const TensorMap* map, int a, int b, int c, int d, int e, Barrier& f) {
    copy_box(shared_address(to), map, a, b, c, d, e, f);
}
static void copy_box(void* to, const TensorMap* map, int a, int c, int d, int e, Barrier& f) {  // whole images in a line: no second axis
    copy_box(to, map, a, 0, c, d, e, f);
}
template <class T = STORED>
TensorMap boxes_of(const void* tensor, const long long (&extent)[5], const long long (&stride)[4], const int (&box)[5], int swizzle = 0,
    int dtype = 7) {
    HostBoxes made{(const char*)tensor, sizeof(T), dtype == 11};
    made.swizzle = swizzle;
    for (int a = 0; a < 5; ++a) made.extent[a] = (int)extent[a], made.box[a] = box[a];
    for (int a = 0; a < 4; ++a) made.stride[a] = stride[a];
    return {made};
}
template <class T = STORED>
TensorMap boxes_of(const void* tensor, const long long (&e)[5], const int (&box)[5], int swizzle = 0, int dtype = 7) {
    const long long row = sizeof(T) * e[0], plane = row * e[1], volume = plane * e[2];
    return boxes_of<T>(tensor, e, {row, plane, volume * e[4], volume}, box, swizzle, dtype);
}
static float2 make_float2(float x, float y) { return {x, y}; }
static float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static bool group_agrees(int barrier, bool mine) { return agree(barrier, 128, mine); }
static void products_begin() {}
static void products_commit() {}
template <int PENDING> void products_wait() {}
static void landed(float&) {}
static void add_landed(float& total, float sum) { total += sum; }
template <int COUNT> void registers_give() {}
template <int COUNT> void registers_take() {}
template <int N> void product(float (&d)[N], unsigned long long a, unsigned long long b, int accumulate = 1) {
    multiply_group<@MULTIPLIED@>(d, a, b, accumulate, [](@MULTIPLIED@ e) { return (float)e; });
}
"""
MACHINE = re.findall(
    r"^(?:template <.*> |static )?(?:void|bool|TensorMap) (\w+)\(.* \{", RUNTIME.split("SM90_ALL")[1], re.M
)
INSTRUCTIONS = (
    (
        r'(?:PTX|asm volatile)\("(?:wgmma|fence|setmaxnreg)[^"]*"(?: ::"n"\([^;]*\))?\);',
        ";",
    ),  # which one machine's threads need not be told
    (r'asm volatile\(""\s[^;]*;', ";"),
    (r"struct Half \{.*?\n\};\nstruct Bfloat \{.*?\n\};\n", ""),
    (r"__device__ const", "static const"),
    (r"extern __shared__ [^;]*\bfloat tf_tiles\[\];", "static float tf_tiles[1 << 16];"),
    (r'PTX\("cp\.async\.ca[^;]*;"[^;]*;', "*to = *from;"),
    (r'PTX\("cp\.async[^;]*;"[^;]*;', ";"),
    (r"direct<<<(.*?), 256, 0, stream>>>\((.*?)\);", r"run_grid((int)(\1), 256, true, false, [=] { direct(\2); });"),
    (r"\bP\(a\)\.\.\.", "(P)a..."),  # a number becomes a pointer
    (r"typedef unsigned long long Barrier;|struct alignas\(64\) TensorMap \{[^}]*\};", ""),
    (
        r'(#define TF_CLUSTER_BARRIER\(\) |SINCE_90\("barrier\.cluster[^\n]*, )__syncthreads\(\)',
        r"\1tf_host_grid_barrier()",
    ),
    (r"extern __shared__ [^;]*\bunsigned char shared\[\];", "unsigned char* const shared = tf_host_shared;"),
    (r'asm\("max\.NaN[^"]*"[^;]*;', "c = a != a ? a : b != b ? b : a > b ? a : b;"),
    (r'asm\("min\.NaN[^"]*"[^;]*;', "c = a != a ? a : b != b ? b : a < b ? a : b;"),
    (r'asm\("ex2[^"]*"[^;]*;', "c = exp2f(a);"),
    (r'asm\("rcp[^"]*"[^;]*;', "c = 1 / b;"),
    (r'asm\("tanh[^"]*"[^;]*;', "y = tanhf(x);"),
    (r'PTX\("[^"]*@p st\.global\.cs\.v\d[^"]*"[^;]*;', "{ if (taken) memcpy(to, &whole, sizeof(whole)); }"),
    (r'asm volatile\("[^"]*@p st\.global\.v4[^"]*"[^;]*;', "if (taken) *(uint4*)to = v; to += further;"),
    (r'asm volatile\("[^"]*@p st\.global\.u32[^"]*"[^;]*;', "if (taken) *(unsigned*)to = v; to += further;"),
    (r'asm volatile\("[^"]*@p st\.global\.u16[^"]*"[^;]*;', "if (taken) *(unsigned short*)to = v; to += further;"),
    *(
        (
            rf"\n(?:template <[^>\n]*> )?(?:DEVICE|TF_PTX|static) [\w ]+\b{name}\("
            r"(?:[^\n]*\{(?:  //[^\n]*)?\n.*?\n\}|[^\n]*\})[^\n]*(?=\n)",
            "",
        )
        for name in (*MACHINE, "shared_address", "round_tf32", "copy_commit", "copy_wait", "rest")
    ),
)


LINES = re.compile(r"\b(IN|NOT)_(TF32|ANY_WIDTH|STRICT|HALF)\(")


def of_build(source: str, *told: str) -> str:
    """The source with what stands in macros of builds written out, for the one that the compiler is told of: instructions are
    replaced by their text, which a macro may stand in."""
    build = next((flag.removeprefix("-D") for flag in told if flag.startswith("-D")), "TF32")
    source = re.sub(
        r"#if defined\(HALF\)\n(?:#define (?:IN|NOT)_.*\n)+#else\n(?:#define (?:IN|NOT)_.*\n)+#endif\n", "", source
    )
    while m := LINES.search(source):
        end, depth = m.end(), 1
        while depth:
            quoted = re.compile(r'"(?:\\.|[^"\\])*"').match(source, end)
            depth += 0 if quoted else (source[end] == "(") - (source[end] == ")")
            end = quoted.end() if quoted else end + 1
        said = source[m.end() : end - 1] if (m[2] == build) == (m[1] == "IN") else ""
        source = source[: m.start()] + said + source[end:]
    return re.sub(r'(?<=[^\\\n])"[ ]+"(?=[^"\n])', "", source)


def emulated(text: str, folder, arch: int, stored: str = "float", *told: str) -> dict:
    """The file, its kernels on the CPU, for elements of a type. Plain ones are told of a GPU that has no clusters of blocks."""
    source = of_build(namespace(text)["SOURCE"], *told)
    half = ".f16.f16" in source and ("-DHALF" in told or ".tf32.tf32" not in source)  # else sums of it are multiplied
    machine = RUNTIME.replace("@STORED@", stored).replace("@MULTIPLIED@", stored if half else "float")
    for instruction, by in INSTRUCTIONS:
        source = re.sub(instruction, by, source, flags=re.S)
    (folder / "file.cpp").write_text(machine + source)
    flags = ["-std=c++17", "-O1", "-U_FORTIFY_SOURCE", "-w", "-fpermissive", "-fPIC", "-shared", "-ffp-contract=off"]
    flags.append("-fno-gnu-unique")  # tables of one file's templates are not another's
    command = [
        "c++",
        *flags,
        *told,
        f"-I{root / 'tests' / 'cuda_host'}",
        str(folder / "file.cpp"),
        "-o",
        str(folder / "file.so"),
    ]
    subprocess.run(command, check=True)
    library = ctypes.CDLL(str(folder / "file.so"))

    def compiled(name, *_):
        return ctypes.CFUNCTYPE(ctypes.c_longlong)((name, library)), arch

    space = namespace(text.replace("if not leaves[0].is_cuda:", "if False:"))
    space["compiled"] = compiled
    space["in_tf32"] = lambda *_: True  # what cuDNN does is not asked here
    return space


def deviation(found, truth) -> float:
    """The error beside what a channel's values differ by: TF32's is below a thousandth, that of a wrong tap is not."""
    apart = truth - truth.mean([d for d in range(truth.dim()) if d != 1], keepdim=True)
    return ((found.double() - truth).pow(2).mean() / apart.pow(2).mean()).sqrt().item()


def rms(found, truth) -> float:
    return ((found.double() - truth).pow(2).mean().sqrt() / truth.pow(2).mean().sqrt()).item()


# Of A and B several chunks of rows, one chunk, rows longer than the example's, and sizes that only the general kernels take; of
# f10 parts of the image that are empty at the example's sizes, and none, and longer rows; of f5 tiles that a border cuts, and none.
CASES = {
    "A": ((2, 64, 130, 32), (1, 64, 70, 16), (1, 64, 9, 256), (1, 64, 9, 7)),
    "B": ((2, 64, 130, 32), (1, 64, 9, 7)),
    "f10": ((2, 3, 8, 12, 16), (1, 3, 9, 33, 32), (1, 3, 4, 9, 64)),
    "f8": ((1, 32, 2, 3, 16),),
    "f4": ((1, 16, 4, 3, 16),),
    "f5": ((2, 16, 3, 5, 16), (1, 16, 3, 5, 32), (1, 16, 2, 9, 48)),
    "C": ((2, 64, 1, 2, 32),),
    "f1": ((1, 64, 5, 32), (2, 64, 4, 16)),
    "f11": ((2, 64, 3, 64), (1, 64, 6, 64)),
}
DENSE = ("f8", "f4", "f5", "C", "f1", "f11")


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler here")
@pytest.mark.parametrize("row", CASES)
def test_kernels_of_a_file_compute_what_the_model_does(row, tmp_path, monkeypatch):
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: -1, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 0, raising=False)
    path = root / "bench" / "models" / f"{row}.py"
    text = file_of(row)
    assert text.count("\n") < 600
    space, theirs = emulated(text, tmp_path, 90 if row in DENSE else 80), namespace(path.read_text())
    arguments = theirs["get_init_inputs"]()
    for shape in CASES[row]:
        for training in (True, False):
            torch.manual_seed(0)
            reference = theirs["Model"](*arguments).train(training)
            torch.manual_seed(0)
            model = space["ModelNew"](*arguments).train(training)
            wide, x = copy.deepcopy(reference).double(), torch.rand(shape)
            with torch.no_grad():
                found, plain, truth = model(x), reference(x), wide(x.double())
            if row in DENSE:
                assert deviation(found, truth) <= 1e-3
            else:
                assert rms(found, truth) <= max(2 * rms(plain, truth), 1e-7)
            for mine, true in zip(model.buffers(), wide.buffers()):
                near = 1e-4 if row in DENSE else 1e-6
                torch.testing.assert_close(mine.double(), true.double(), rtol=near, atol=near)
    left = {key[0] for key, (_, _, _, need, *_) in space["_calls"].items() if need < 0}
    assert not left  # no call was left to PyTorch


def in_16_bits(space: dict, theirs: dict, shape, times: float = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """What a file's kernels make of bf16, and float64; with weights so many times as large."""
    torch.manual_seed(0)
    reference = theirs["Model"](*theirs["get_init_inputs"]()).bfloat16()
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter.mul_(times)
    model = space["ModelNew"](*theirs["get_init_inputs"]()).bfloat16()
    model.load_state_dict(reference.state_dict())
    x = torch.rand(shape).bfloat16()
    with torch.no_grad():
        found, truth = model(x), copy.deepcopy(reference).double()(x.double())
    assert found.dtype == torch.bfloat16
    assert all(need >= 0 for _, _, _, need, *_ in space["_calls"].values())  # no call was left to PyTorch
    return found, truth


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler here")
def test_elements_of_16_bits_are_read_by_as_many_bytes(tmp_path, monkeypatch):
    """A's rows: vectors of eight, twice as many rows at once; what is summed is the same."""
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: -1, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 0, raising=False)
    path = root / "bench" / "models" / "A.py"
    text = file_of("A")
    assert "tf_vector<STORED, PICK(4, 8)>" in text
    space, theirs = emulated(text, tmp_path, 80, "Bfloat"), namespace(path.read_text())
    for shape in CASES["A"]:
        found, truth = in_16_bits(space, theirs, shape)
        torch.testing.assert_close(found.double(), truth, rtol=2**-8, atol=0)  # rounded once


def file_with_kernels_for_16_bits(row: str, tmp_path, monkeypatch) -> tuple[dict, dict]:
    """Kernels of their own, in one text with those for fp32."""
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: -1, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 0, raising=False)
    path = root / "bench" / "models" / f"{row}.py"
    text = file_of(row)
    assert '"HALF"' in text and text.count("\n") < 600
    return emulated(text, tmp_path, 90, "Bfloat", "-DHALF"), namespace(path.read_text())


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler here")
@pytest.mark.parametrize("row, shape", [("f2", (1, 64, 3, 64)), ("d2", (1, 48, 2, 3, 64)), ("d6", (1, 32, 2, 3, 32))])
def test_tensor_cores_with_elements_of_16_bits(row, shape, tmp_path, monkeypatch):
    files = file_with_kernels_for_16_bits(row, tmp_path, monkeypatch)
    assert deviation(*in_16_bits(*files, shape)) <= 0.01


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler here")
def test_16_bits_in_rows_of_another_length_are_widened(tmp_path, monkeypatch):
    """d2's kernels for 16 bits share the zeros between rows of the example's length, as those for fp32 do; kernels for all other
    lengths are for fp32 alone."""
    space, theirs = file_with_kernels_for_16_bits("d2", tmp_path, monkeypatch)
    (tmp_path / "wide").mkdir()
    wide = emulated(file_of("d2"), tmp_path / "wide", 90, "float", "-DANY_WIDTH")["compiled"]
    halves, asked = space["compiled"], []

    def compiled(name, dtype, device, told):
        asked.append((dtype, told))
        return (wide if told == "ANY_WIDTH" else halves)(name)

    space["compiled"] = compiled
    torch.manual_seed(0)
    reference = theirs["Model"](*theirs["get_init_inputs"]()).bfloat16()
    model = space["ModelNew"](*theirs["get_init_inputs"]()).bfloat16()
    model.load_state_dict(reference.state_dict())
    space["OTHERWISE"][-3] = "ANY_WIDTH"  # fp32 kernels for the example's rows, which would say -4, are not built here
    x = torch.rand(1, 48, 2, 2, 32).bfloat16()
    with torch.no_grad():
        found, truth = model.float()(x.float()), reference.double()(x.double())
    assert asked == [(torch.float32, "TF32"), (torch.float32, "ANY_WIDTH")] and deviation(found, truth) <= 1e-3
    del space["OTHERWISE"][-3], asked[:]
    with torch.no_grad():
        rounded = model.bfloat16()(x)
    assert rounded.dtype == torch.bfloat16 and torch.equal(rounded, found.bfloat16())
    assert asked == [(torch.bfloat16, "HALF")]


def file_for_16_bits(row: str, tmp_path, monkeypatch) -> tuple[dict, dict]:
    """As `--dtype` writes it: kernels for 16 bits alone."""
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: -1, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 0, raising=False)
    path = root / "bench" / "models" / f"{row}.py"
    return emulated(file_of(row, "float16"), tmp_path, 90, "Bfloat"), namespace(path.read_text())


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler here")
@pytest.mark.parametrize(
    "row, shapes, times",
    [("d2", ((1, 48, 2, 3, 64), (1, 48, 2, 2, 32)), 1), ("f11", ((1, 64, 3, 64), (2, 64, 2, 32)), 32)],
)
def test_a_file_for_16_bits_has_kernels_for_rows_of_the_examples_length_and_of_others(
    row, shapes, times, tmp_path, monkeypatch
):
    """Rows of their length share the zeros between them; f11's results, of larger weights, leave by half words."""
    files = file_for_16_bits(row, tmp_path, monkeypatch)
    for shape in shapes:
        found, truth = in_16_bits(*files, shape, times)
        assert truth.max() - truth.min() > 0.1
        torch.testing.assert_close(found.double(), truth, rtol=2**-6, atol=2**-7)
    source = files[0]["SOURCE"]
    assert all(f"launch({name}dense, " in source for name in ("forward_", "forward_rows_"))


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler here")
def test_statistics_of_16_bits_stay_fp32_until_they_are_added(tmp_path, monkeypatch):
    """C's, in train mode, and what eval mode makes of them, by kernels that read eight elements at once in both."""
    space, theirs = file_for_16_bits("C", tmp_path, monkeypatch)
    torch.manual_seed(0)
    reference = theirs["Model"](*theirs["get_init_inputs"]()).bfloat16()
    model = space["ModelNew"](*theirs["get_init_inputs"]()).bfloat16()
    model.load_state_dict(reference.state_dict())
    wide, x = copy.deepcopy(reference).double(), torch.rand(2, 64, 2, 3, 32).bfloat16()
    with torch.no_grad():
        model(x), wide(x.double())
        for name in ("running_mean", "running_var"):
            mine, true = getattr(model.batch_norm, name), getattr(wide.batch_norm, name)
            assert mine.dtype == torch.bfloat16
            torch.testing.assert_close(mine.double(), true, rtol=2**-8, atol=2**-9 * true.abs().max().item())
        found, truth = model.eval()(x), wide.eval()(x.double())
    torch.testing.assert_close(found.double(), truth, rtol=2**-6, atol=2**-7)
    assert all(need >= 0 for _, _, _, need, *_ in space["_calls"].values())
    assert space["SOURCE"].count(" moments(READ p0") + space["SOURCE"].count("_moments(READ p0") == 1


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler here")
@pytest.mark.parametrize("made", [file_for_16_bits, file_with_kernels_for_16_bits])
def test_sums_of_16_bits_are_multiplied_in_fp32(made, tmp_path, monkeypatch):
    """What f4's product reads are sums of depth, which no 16 bits hold: boxes of floats, of which half results are stored."""
    files = made("f4", tmp_path, monkeypatch)
    found, truth = in_16_bits(*files, CASES["f4"][0], times=4)
    assert truth.max() - truth.min() > 0.1
    torch.testing.assert_close(found.double(), truth, rtol=2**-6, atol=2**-8)


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler here")
@pytest.mark.parametrize("row, shape, times", [("f8", (1, 32, 2, 3, 16), 64), ("f11", (1, 64, 3, 64), 32)])
def test_a_softmax_of_elements_of_16_bits(row, shape, times, tmp_path, monkeypatch):
    """Of weights as they are drawn all shares are alike to three digits, and so are their sigmoids: larger ones."""
    files = file_with_kernels_for_16_bits(row, tmp_path, monkeypatch)
    found, truth = in_16_bits(*files, shape, times)
    assert truth.max() - truth.min() > 0.1
    torch.testing.assert_close(found.double(), truth, rtol=2**-7, atol=1e-30)  # what is smaller becomes 0


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler here")
def test_a_minimum_over_channels_of_elements_of_16_bits(tmp_path, monkeypatch):
    files = file_with_kernels_for_16_bits("f7", tmp_path, monkeypatch)
    found, truth = in_16_bits(*files, (2, 64, 3, 128))
    assert truth.max() - truth.min() > 0.1
    torch.testing.assert_close(found.double(), truth, rtol=2**-7, atol=2**-9)


def gradients(model, x) -> dict:
    """Of the inputs and parameters, by name; of a sum of the results in which every one counts differently."""
    x = x.detach().requires_grad_()
    y = model(x)
    y.backward(torch.linspace(-1, 1, y.numel(), dtype=y.dtype).reshape(y.shape))
    return {"x": x.grad, **{name: p.grad for name, p in model.named_parameters()}}


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler here")
@pytest.mark.parametrize("row", ["A", "B"])
def test_gradients_by_kernels_of_a_file(row, tmp_path, monkeypatch):
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: -1, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 0, raising=False)
    path = root / "bench" / "models" / f"{row}.py"
    space, theirs = emulated(file_of(row), tmp_path, 80), namespace(path.read_text())
    for shape in CASES[row]:
        torch.manual_seed(0)
        reference = theirs["Model"](*theirs["get_init_inputs"]())
        torch.manual_seed(0)
        model, wide, x = (
            space["ModelNew"](*theirs["get_init_inputs"]()),
            copy.deepcopy(reference).double(),
            torch.rand(shape),
        )
        found, plain, truth = gradients(model, x), gradients(reference, x), gradients(wide, x.double())
        for name, true in truth.items():
            assert rms(found[name], true) <= max(2 * rms(plain[name], true), 2e-7), name
        # Inputs that want no gradient, and gradients of gradients.
        model.zero_grad()
        y = model(x)
        y.backward(torch.linspace(-1, 1, y.numel()).reshape(y.shape))
        assert all(torch.equal(p.grad, found[name]) for name, p in model.named_parameters())
        given = x.clone().requires_grad_()
        (once,) = torch.autograd.grad(model(given).square().sum(), given, create_graph=True)
        (twice,) = torch.autograd.grad(once.square().sum(), given)
        assert twice.shape == x.shape and twice.abs().max() > 0
    left = {
        shape[1][0] for shape, (_, _, _, need, *_) in space["_calls"].items() if shape[0] == "backward" and need < 0
    }
    assert left == {s for s in CASES[row] if s[-1] % 16}  # the kernels of gradients are for whole vectors


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler here")
@pytest.mark.parametrize("arch, launched", [(90, {}), (80, {"convolve": 0})])
def test_sizes_beyond_a_kernels_room_are_computed_as_written(arch, launched, tmp_path, monkeypatch):
    """Box sums by rows keep so many of them: of a higher image a block would have more. On other GPUs by the portable kernel."""
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: -1, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 0, raising=False)
    path = root / "bench" / "models" / "f5.py"
    space, theirs = emulated(file_of("f5"), tmp_path, arch), namespace(path.read_text())
    torch.manual_seed(0)
    reference = theirs["Model"](*theirs["get_init_inputs"]())
    torch.manual_seed(0)
    model, x = space["ModelNew"](*theirs["get_init_inputs"]()), torch.rand(1, 16, 2, 40, 16)
    with torch.no_grad():
        torch.testing.assert_close(model(x), reference(x))
        model.bfloat16()(x.bfloat16())  # whose statistics have 16 bits there
        reference(x)
    for mine, other in zip(model.buffers(), reference.buffers()):
        torch.testing.assert_close(mine.to(other.dtype), other, rtol=0.02, atol=0.02)
    assert {key[0]: need for key, (_, _, _, need, *_) in space["_calls"].items()} == {"train": -2, **launched}
