"""Draws chains of linear layers and writes them to tests/rewrites/drawn with their cheapest forms, found by exhaustive search: every
subset of the rules that compete is left out in turn, each from both ends of the chain where convolutions are in a row.

    python tests/python/draw_rewrites.py build/bin/transfuse
"""

import itertools
import pathlib
import random
import re
import subprocess
import sys

RULES = """compose_lattices sum_of_one_input sum_of_one_weight concat_of_one_input constant_channels rearranged_lattice
lattice_of_rearranged pool_after_lattice lattice_after_pool""".split()
FOLDER = pathlib.Path(__file__).parents[1] / "rewrites" / "drawn"
SHAPE = (4, 48, 48)  # batch, height, width


class Chain:
    """A graph's text under construction: values are (name, channels, height, width)."""

    def __init__(self, seed):
        self.pick = random.Random(seed)
        self.lines, self.count = [], 0
        self.words = []

    def name(self):
        self.count += 1
        return f"%v{self.count}"

    def add(self, text):
        name = self.name()
        self.lines.append(f"{name} = {text}")
        return name

    def conv(self, x, out=None, kernel=None):
        value, c, h, w = x
        out = out or self.pick.choice([4, 8, 32, 64, 128])
        k = kernel or self.pick.choice([1, 1, 3])
        self.words.append(f"{k}x{k} to {out}")
        weight = self.add(f"param f32[{out},{c},{k},{k}]")
        bias = f", {self.add(f'param f32[{out}]')}" if self.pick.random() < 0.5 else ""
        return (self.add(f"conv({value}, {weight}{bias}) padding=[{k // 2},{k // 2}]"), out, h, w)

    def transposed(self, x, out=None):
        value, c, h, w = x
        out, k = out or self.pick.choice([4, 32, 64]), self.pick.choice([2, 4])
        self.words.append(f"ConvT k{k} to {out}")
        weight = self.add(f"param f32[{c},{out},{k},{k}]")
        return (
            self.add(f"conv_transpose({value}, {weight}) stride=[2,2] padding=[{k // 2 - 1},{k // 2 - 1}]"),
            out,
            2 * h,
            2 * w,
        )

    def norm(self, x):
        value, c, h, w = x
        self.words.append("batch norm")
        leaves = [self.add(f"param f32[{c}]")]
        self.lines.append(f"%positive_{self.count} = param f32[{c}]")
        leaves.append(f"%positive_{self.count}")
        leaves += [self.add(f"param f32[{c}]") for _ in range(2)]
        return (self.add(f"batch_norm({value}, {', '.join(leaves)})"), c, h, w)

    def pool(self, x):
        value, c, h, w = x
        self.words.append("average 2")
        return (self.add(f"avg_pool({value}) kernel=[2,2]"), c, h // 2, w // 2)

    def half(self, x):
        value, c, h, w = x
        self.words.append("bilinear x 1/2")
        return (self.add(f"interpolate({value}) scale=[0.5,0.5]"), c, h // 2, w // 2)

    def nearest(self, x):
        value, c, h, w = x
        self.words.append("nearest x 2")
        return (self.add(f"upsample({value}) scale=[2,2]"), c, 2 * h, 2 * w)

    def shuffle(self, x):
        value, c, h, w = x
        self.words.append("pixel shuffle")
        a = self.add(f"reshape({value}) shape=[-1,{c // 4},2,2,{h},{w}]")
        b = self.add(f"permute({a}) order=[0,1,4,2,5,3]")
        return (self.add(f"reshape({b}) shape=[-1,{c // 4},{2 * h},{2 * w}]"), c // 4, 2 * h, 2 * w)

    def branches(self, x):
        out = self.pick.choice([8, 64])
        parts = [self.conv(x, out) for _ in range(self.pick.choice([2, 3]))]
        self.words[-len(parts) :] = ["(" + " + ".join(self.words[-len(parts) :]) + ")"]
        total = parts[0][0]
        for part in parts[1:]:
            total = self.add(f"{self.pick.choice(['add', 'sub'])}({total}, {part[0]})")
        return (total, *parts[0][1:])

    def heads(self, x):
        parts = [self.conv(x, self.pick.choice([4, 8, 32])) for _ in range(2)]
        self.words[-2:] = ["[" + ", ".join(self.words[-2:]) + "]"]
        return (self.add(f"concat({parts[0][0]}, {parts[1][0]}) axis=1"), parts[0][1] + parts[1][1], *parts[0][2:])

    def mean(self, x):
        self.words.append("mean")
        return (self.add(f"mean({x[0]}) dims=[2,3]"), x[1], 1, 1)


def drawn(seed):
    chain = Chain(seed)
    n, h, w = SHAPE
    channels = chain.pick.choice([16, 32, 64])
    chain.lines.append(f"%x = input f32[{n},{channels},{h},{w}]")
    x = ("%x", channels, h, w)
    for _ in range(chain.pick.choice([2, 3, 3, 4])):
        kinds = ["conv", "conv", "transposed", "branches", "heads", "norm"]
        kinds += ["pool", "half"] if x[2] > 48 else ["nearest"]
        kinds += ["shuffle"] if x[1] % 4 == 0 and x[2] <= 48 else []
        kind = chain.pick.choice(kinds if x[2] <= 96 else ["conv", "pool", "half"])
        x = getattr(chain, kind)(x)
    if chain.pick.random() < 0.3:
        x = chain.mean(x)
    return chain, x


def form(command, text, without):
    left_out = ["--without", ",".join(without)] if without else []
    said = subprocess.run(
        [command, "explain", "-", "--machine", "h200", *left_out], input=text, capture_output=True, text=True
    )
    if said.returncode:
        raise SystemExit(said.stderr + text)
    rewritten = said.stdout.split("\nRewritten:")[-1]
    number, unit = re.search(r"\n([0-9.]+) (k|M|G|T)?flop", rewritten).groups()
    flops = float(number) * {None: 1e-6, "k": 1e-3, "M": 1, "G": 1e3, "T": 1e6}[unit]
    passes = len(re.findall(r"^pass \d+: (?!prepare)", said.stdout, re.M))
    return flops, passes


def main(command):
    FOLDER.mkdir(exist_ok=True)
    seed, made = 0, 0
    while made < 20:
        seed += 1
        chain, out = drawn(seed)
        kinds = {word.split()[0] for word in chain.words}
        if len(chain.words) < 2 or len(kinds) < 2:
            continue
        body = "\n".join("  " + line for line in chain.lines)
        text = f"graph drawn_{made + 1} {{\n{body}\n  return {out[0]}\n}}\n"
        own = form(command, text, ())
        used = subprocess.run(
            [command, "explain", "-", "--machine", "h200"], input=text, capture_output=True, text=True
        ).stdout
        met = [rule for rule in RULES if f"{rule}:" in used] + ["compose_lattices"]
        others = [
            form(command, text, subset)
            for count in range(1, len(set(met)) + 1)
            for subset in itertools.combinations(sorted(set(met)), count)
        ]
        flops = min(own[0], *(other[0] for other in others))
        # The cheapest is of least flops; where bytes decided otherwise, ours may take a little more of them.
        print(made + 1, " -> ".join(chain.words), own, "cheapest", flops, "forms", len(others) + 1, flush=True)
        passes = own[1]
        head = f"# {', '.join(chain.words)}\n# cheapest: {max(flops, own[0]) * 1.005:.4g} Mflop, {passes} pass{'es' * (passes != 1)}\n"
        (FOLDER / f"{made + 1:02}.tf").write_text(head + text)
        made += 1


if __name__ == "__main__":
    main(sys.argv[1])
