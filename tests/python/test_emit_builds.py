"""Lines that not all builds of a file say: whatever way they stand in one text, the compiler reads each build's own."""

import random
import re
import shutil
import subprocess

import pytest

from transfuse.emit import builds
from transfuse.emit.builds import apart
from transfuse.emit.text.alone import residues, roles_of_one_text
from transfuse.emit.text.tidy import tidy
from transfuse.emit.text.typed import plainly, said, tree_of

LINES = [
    "DEVICE void f(int a, const float* from, float* to) {",
    "    const int at = a * 4 + threadIdx.x;",
    "    UNROLL for (int i = 0; i < 4; i++) to[i] = from[at + i] * 2.0f;",
    "    if (at < 16) {",
    "        held.wait(b.full[a], 1, b);",
    '        asm volatile("wgmma.m64n128k8.f32.tf32.tf32 {" : "+f"(to[0]) : "l"(a), "r"(at));',
    "        multiply<0>(to, from, at, a);  // the taps of a tile",
    "    }",
    "    barrier_arrive(b.empty[a]);",
    "}",
    "constexpr int SIZE = 12;",
    "DEVICE int g(int a) { return a + SIZE; }",
]
OTHERS = [
    "    products_wait<0>();",
    "    for (int k = 0; k < a; k++) to[k] += from[k];",
    "        held.release(b);",
    '        PTX("fence.proxy.async;", "r"(a));',
]
WORDS = ["at", "other", "from[a]", "g(a, 3)", '"r"(at)', '"wgmma.m64n64k16.f32.f16.f16 {"', "7", "(at + 2)"]


def another(lines: list[str], chance: random.Random) -> list[str]:
    """The same with some lines gone, some new, and some words others."""
    out = []
    for line in lines:
        turn = chance.random()
        if turn < 0.1 and line.startswith("    ") and "{" not in line and "}" not in line:
            continue
        if turn < 0.2:
            out.append(chance.choice(OTHERS))
        words = re.findall(r'\b(?:at|from|a|\d+)\b|"[^"]*"', line.split("//")[0])
        if words and 0.2 < turn < 0.6 and not line.startswith("constexpr"):
            line = line.replace(chance.choice(words), chance.choice(WORDS), 1)
        out.append(line)
    return out


def read(text: str, key: str, keys: list[str]) -> str:
    """What is left for a build, strings joined, spaces and comments gone."""
    text = re.sub(r"(?m)^#define PICK.*$", "", text)
    names = [apart.name(k) for k in keys]
    told = [f"-DPICK({', '.join(names)})={apart.name(key)}"]
    told += [f"-D{apart.FLAGS[key]}"] if apart.FLAGS[key] else []
    command = ["c++", "-E", "-P", "-x", "c++", *told, "-"]
    found = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    return re.sub(r"\s+", "", re.sub(r'"\s*"', "", found))


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler here")
@pytest.mark.parametrize("keys", [["fp32", "half"], ["fp32", "strict", "half"], ["fp32", "wide", "strict", "half"]])
@pytest.mark.parametrize("by_line", [False, True])
def test_every_build_reads_its_own_lines(keys, by_line):
    within = 0
    for seed in range(25):
        chance = random.Random(seed)
        texts = {key: "\n".join(another(LINES, chance) if key != "fp32" else LINES) for key in keys}
        merged = builds._merged(texts, False, by_line)
        within += len(re.findall(r"\b(?:IN|NOT)_\w+\(", merged))
        for key, text in texts.items():
            own = re.sub(r"\s+", "", re.sub(r'"\s*"', "", re.sub(r"//.*", "", text)))
            assert read(merged, key, keys) == own, (seed, key)
    assert (within > 50) == by_line


def test_what_is_alike_in_two_lines_stands_once():
    keys = ["fp32", "half"]
    lines = {"fp32": "    pixels += at.start + warpgroup * 64;", "half": "    pixels += warpgroup * 64;"}
    assert apart.within(lines, keys) == "    pixels += IN_TF32(at.start +) warpgroup * 64;"
    lines = {
        "fp32": 'asm volatile("st.u32 [%0], %3; add;" : "r"(v));',
        "half": 'asm volatile("st.u16 [%0], %3; add;" : "r"(v));',
    }
    assert apart.within(lines, keys) == 'asm volatile("st." IN_TF32("u32") IN_HALF("u16") " [%0], %3; add;" : "r"(v));'
    assert apart.within({"fp32": "f(a, b, c);", "half": "while (true) g();"}, keys) is None
    lines = {"fp32": "if (a < b) { f(a, b, c);", "half": "if (a < b) f(a, b, c);"}
    assert apart.within(lines, keys) is None  # a brace would be open in a macro


@pytest.mark.parametrize("own, half", [("STORED", "float"), ("float", "STORED")])
def test_a_type_is_that_of_16_bits(own, half):
    """What is stored is float in all other builds; what is float in that one is no 16 bits."""
    line = "DEVICE int f(int a) {{ return a * {} * (int)sizeof({}); }}"
    text = builds.merged({"fp32": line.format(4, own), "half": line.format(8, half)}, lambda _: True)
    assert f"return a * PICK(4, 8) * (int)sizeof({half});" in text


def test_lines_of_the_preprocessor_stand_between_conditions():
    texts = {"fp32": "#define A 1\nint a;", "half": "#define A 2\nint a;"}
    assert builds._merged(texts, False, True) == "#if defined(HALF)\n#define A 2\n#else\n#define A 1\n#endif\nint a;"


def test_a_number_that_roles_hand_on_and_nobody_asks_for_is_gone():
    text = """template <int WG> DEVICE void multiply(float& acc) { acc++; }
template <int WG> static __device__ void product_role(int t) {
    multiply<WG>(t);
}
void kernel() { product_role<0>(1); product_role<1>(2); }"""
    found = roles_of_one_text(text)
    assert "WG" not in found and "product_role(1); product_role(2);" in found and "    multiply(t);" in found
    asked = text.replace("acc++", "acc += WG")
    assert roles_of_one_text(asked) == asked


def test_residues_of_a_tile_that_are_its_variant():
    text = "void f() {\n    const int code = at.variant * 256;\n    h = 2 * u + (code >> 8 & 255), d = v + (code >> 16);\n}"
    assert residues(text) == "void f() {\n    h = 2 * u + at.variant, d = v;\n}"
    other = text.replace("(code >> 16)", "code")
    assert residues(other) == other


def test_a_store_rounds_what_it_stores():
    known = {"p": "STORED*", "q": "float*", "v": "double"}
    value = tree_of("(double)tf_round<STORED>(v * 2.0)")
    assert said(plainly(value, known, "STORED")) == "v * 2.0"
    assert "tf_round" in said(plainly(value, known, "float"))


def test_a_variant_that_not_all_builds_choose_begins_as_the_first():
    """In a build with one variant nobody writes it again, and the stores ask for it."""
    text = """DEVICE Place place_of(int tile) {
    Place at;
    at.variant = 0;
    @
        at.variant = tile % VARIANTS;
    }
    return at;
}"""
    conditional, always = (
        text.replace("@", "if (VARIANTS > 1) {"),
        text.replace("@\n        ", "").replace("    }\n", ""),
    )
    assert "at.variant = 0;" in tidy(conditional)
    assert "at.variant = 0;" not in tidy(always) and "at.variant = tile % VARIANTS;" in tidy(always)
