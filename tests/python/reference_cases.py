"""Writes tests/correctness/reference_cases.txt: what PyTorch computes in float64, for reference_pytorch_test.cpp.

    .venv/bin/python tests/python/reference_cases.py > tests/correctness/reference_cases.txt

One case a line: inputs | statement | result type | three projections of the result, Σ out[i]·sin(0.7·(k+1)·i + k), k = 0, 1, 2.
The inputs' elements come from the generator of tests/random_graphs.h with seed 100·case + input, in [-1, 1), or in [0.5, 1.5)
where the input's name begins with "positive".
"""

import random

import numpy as np
import torch
import torch.nn.functional as F

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def uniform(seed, count, positive):
    state, values = (seed * GOLDEN + 0x1234567) & MASK, []
    for _ in range(count):
        state = (state + GOLDEN) & MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        u = ((z ^ (z >> 31)) >> 11) * 2.0**-53
        values.append(0.5 + u if positive else -1 + 2 * u)
    return torch.tensor(values, dtype=torch.float64)


def text(value):
    return "[" + ",".join(str(v) for v in value) + "]" if isinstance(value, (list, tuple)) else repr(value)


class Cases:
    def __init__(self):
        self.count = 0
        self.pick = random.Random(20)

    def case(self, inputs, op, attributes, compute, operands=None):
        """inputs: name -> shape, in order; compute: tensors -> tensor, or what PyTorch refuses (then there is no case)."""
        tensors = [
            uniform(100 * self.count + j, int(np.prod(shape)), name.startswith("positive")).reshape(shape)
            for j, (name, shape) in enumerate(inputs.items())
        ]
        try:
            result = compute(*tensors).detach().contiguous()
        except (RuntimeError, ValueError):
            return
        flat = result.numpy().ravel()
        i = np.arange(flat.size)
        projections = [float(np.sum(flat * np.sin(0.7 * (k + 1) * i + k))) for k in range(3)]
        declared = "; ".join(f"{name} f64{text(list(shape))}" for name, shape in inputs.items())
        statement = f"{op}({operands or ', '.join('%' + name for name in inputs)})"
        statement += "".join(f" {key}={text(value)}" for key, value in attributes.items())
        print(f"{declared} | {statement} | f64{text(list(result.shape))} | " + " ".join(repr(p) for p in projections))
        self.count += 1

    def each(self, d, low, high):
        return [self.pick.randint(low, high) for _ in range(d)]

    def image(self, d, channels=None, low=1, high=6):
        shape = [self.pick.randint(1, 2), channels or self.pick.randint(1, 4), *self.each(d, low, high)]
        return shape[1:] if self.pick.random() < 0.15 else shape

    def convolution(self, transposed):
        d, groups = self.pick.randint(1, 3), self.pick.choice([1, 1, 2, 3])
        channels, out = groups * self.pick.randint(1, 2), groups * self.pick.randint(1, 2)
        x, kernel = self.image(d, channels), self.each(d, 1, 4)
        stride, padding, dilation, more = self.each(d, 1, 3), self.each(d, 0, 5), self.each(d, 1, 3), self.each(d, 0, 2)
        inputs = {"x": x, "w": ([channels, out // groups] if transposed else [out, channels // groups]) + kernel}
        if self.pick.random() < 0.5:
            inputs["b"] = [out]
        attributes = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        function = getattr(F, f"conv_transpose{d}d" if transposed else f"conv{d}d")
        if not transposed:
            return self.case(
                inputs, "conv", attributes, lambda x, w, b=None: function(x, w, b, stride, padding, dilation, groups)
            )
        attributes["output_padding"] = more
        return self.case(
            inputs,
            "conv_transpose",
            attributes,
            lambda x, w, b=None: function(x, w, b, stride, padding, more, groups, dilation),
        )

    def pool(self, kind, gradient):
        d = self.pick.randint(1, 3)
        x, kernel, stride, padding, dilation = (
            self.image(d),
            *(self.each(d, *r) for r in ((1, 4), (1, 3), (0, 2), (1, 2))),
        )
        ceil, count, size = self.pick.randint(0, 1), self.pick.randint(0, 1), self.each(d, 1, 7)
        function = getattr(F, f"{kind}_pool{d}d")
        if kind.startswith("adaptive"):
            attributes, pool = {"output_size": size}, lambda x: function(x, size)
        elif kind == "max":
            attributes = {
                "kernel": kernel,
                "stride": stride,
                "padding": padding,
                "dilation": dilation,
                "ceil_mode": ceil,
            }

            def pool(x):
                return function(x, kernel, stride, padding, dilation, bool(ceil))
        else:
            attributes = {
                "kernel": kernel,
                "stride": stride,
                "padding": padding,
                "ceil_mode": ceil,
                "count_include_pad": count,
            }
            override = self.pick.choice([0, 0, 3]) if d > 1 else 0
            if override:
                attributes["divisor"] = override

            def pool(x):
                return function(x, kernel, stride, padding, bool(ceil), bool(count), *([override] if override else []))

        if not gradient:
            return self.case({"x": x}, kind + "_pool", attributes, pool)
        try:
            pooled = list(pool(torch.zeros(x, dtype=torch.float64)).shape)
        except (RuntimeError, ValueError):
            return None

        def pulled_back(x, g):
            x.requires_grad_()
            return torch.autograd.grad(pool(x), x, g)[0]

        average = "avg" in kind
        if average:
            attributes["sizes"] = x[-d:]
        return self.case(
            {"x": x, "g": pooled},
            ("avg" if average else "max") + "_pool_grad",
            attributes,
            pulled_back,
            "%g" if average else None,
        )

    def interpolation(self, gradient):
        d = self.pick.randint(1, 3)
        x, size = [self.pick.randint(1, 2), self.pick.randint(1, 3), *self.each(d, 1, 5)], self.each(d, 1, 9)
        scale = [self.pick.choice([0.5, 1.0, 1.3, 1.5, 2.0, 3.0]) for _ in range(d)]
        corners, scaled = self.pick.random() < 0.4, self.pick.random() < 0.5
        mode = {1: "linear", 2: "bilinear", 3: "trilinear"}[d]
        attributes = {"scale": scale} if scaled else {"output_size": size}
        attributes["align_corners"] = int(corners)

        def interpolate(x):
            told = {"scale_factor": scale} if scaled else {"size": size}
            return F.interpolate(x, mode=mode, align_corners=corners, **told)

        if not gradient:
            return self.case({"x": x}, "interpolate", attributes, interpolate)
        try:
            made = list(interpolate(torch.zeros(x, dtype=torch.float64)).shape)
        except (RuntimeError, ValueError):
            return None

        def pulled_back(x, g):
            x.requires_grad_()
            return torch.autograd.grad(interpolate(x), x, g)[0]

        attributes["sizes"] = x[2:]
        attributes.pop("output_size", None)
        self.case({"x": x, "g": made}, "interpolate_grad", attributes, pulled_back, "%g")

    def norm(self, kind):
        x = [self.pick.randint(1, 3), 6, *self.each(self.pick.randint(1, 3), 2, 4)]
        vector, eps = [6], self.pick.choice([1e-5, 0.1])
        if kind == "batch":
            self.case(
                {"x": x, "m": vector, "positive_v": vector, "w": vector, "b": vector},
                "batch_norm",
                {"eps": eps},
                lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b, eps=eps),
            )
            self.case(
                {"x": x},
                "batch_norm",
                {"eps": eps, "training": 1},
                lambda x: F.batch_norm(x, None, None, training=True, eps=eps),
            )
        elif kind == "group":
            groups = self.pick.choice([1, 2, 3, 6])
            attributes = {"num_groups": groups, "eps": eps}
            self.case(
                {"x": x, "w": vector, "b": vector},
                "group_norm",
                attributes,
                lambda x, w, b: F.group_norm(x, groups, w, b, eps),
            )
        elif kind == "instance":
            self.case(
                {"x": x, "w": vector}, "instance_norm", {"eps": eps}, lambda x, w: F.instance_norm(x, weight=w, eps=eps)
            )
        else:
            shape = x[self.pick.randint(1, len(x) - 1) :]
            attributes = {"normalized_shape": shape, "eps": eps}
            self.case(
                {"x": x, "w": shape, "b": shape},
                "layer_norm",
                attributes,
                lambda x, w, b: F.layer_norm(x, shape, w, b, eps),
            )

    def pointwise(self):
        shape = [3, 4]
        unary = {name: getattr(torch, name) for name in "neg abs sign exp sin cos erf tanh sigmoid relu square".split()}
        unary |= {name: getattr(F, name) for name in "selu silu mish hardsigmoid hardswish gelu softplus".split()}
        for op, function in unary.items():
            self.case({"x": shape}, op, {}, function)
        for op in "log sqrt rsqrt reciprocal".split():
            self.case({"positive": shape}, op, {}, getattr(torch, op))
        self.case({"x": shape}, "gelu", {"approximate": 1}, lambda x: F.gelu(x, approximate="tanh"))
        self.case({"x": shape}, "leaky_relu", {"negative_slope": 0.2}, lambda x: F.leaky_relu(x, 0.2))
        self.case({"x": shape}, "elu", {"alpha": 0.7}, lambda x: F.elu(x, 0.7))
        self.case({"x": shape}, "softplus", {"beta": 3.0, "threshold": 1.5}, lambda x: F.softplus(x, 3.0, 1.5))
        self.case({"x": shape}, "hardtanh", {"lo": -0.3, "hi": 0.2}, lambda x: F.hardtanh(x, -0.3, 0.2))
        self.case({"x": shape}, "clamp", {"hi": 0.2}, lambda x: x.clamp(max=0.2))
        for op in "add sub mul minimum maximum".split():
            self.case({"a": [2, 1, 3], "b": [4, 1]}, op, {}, getattr(torch, op))
        self.case({"a": [2, 3], "positive": [3]}, "div", {}, torch.div)
        self.case({"positive": [2, 3], "b": [2, 1]}, "pow", {}, torch.pow)
        self.case({"x": [2, 3, 4], "w": [3]}, "prelu", {}, F.prelu)
        self.case({"x": [2, 3, 4], "w": [1]}, "prelu", {}, F.prelu)
        self.case({"a": [2, 3], "b": [3]}, "greater", {}, lambda a, b: (a > b).double())
        self.case({"c": [3], "a": [2, 1], "b": []}, "select", {}, lambda c, a, b: torch.where(c != 0, a, b))

    def reduction(self, op):
        x = self.each(self.pick.randint(1, 4), 2, 4)
        dims = sorted(self.pick.sample(range(len(x)), self.pick.randint(1, len(x))))
        keep, correction = self.pick.randint(0, 1), self.pick.randint(0, 1)
        if op.endswith("softmax"):
            last = [a for a in range(len(x)) if a not in dims] + dims  # the dims flattened, last

            def compute(x):
                moved = x.permute(last)
                flat = getattr(torch, op)(moved.flatten(len(x.shape) - len(dims)), -1)
                return flat.reshape(moved.shape).permute([last.index(a) for a in range(len(last))])

            return self.case({"x": x}, op, {"dims": dims}, compute)
        attributes, more = {"dims": dims, "keepdim": keep}, {}
        if op == "var":
            attributes["correction"] = more["correction"] = correction
        return self.case(
            {"x": x}, op, attributes, lambda x: getattr(torch, op)(x, dim=dims, keepdim=bool(keep), **more)
        )

    def shapes(self):
        x, axis = [2, 3, 5], self.pick.randint(-3, 2)
        start, end, step = self.pick.randint(-6, 6), self.pick.randint(-6, 6), self.pick.randint(1, 3)
        index = [slice(None)] * 3
        index[axis] = slice(start, end, step)
        self.case(
            {"x": x}, "slice", {"axis": axis, "start": start, "end": end, "step": step}, lambda x: x[tuple(index)]
        )
        before, after = self.each(3, -1, 2), self.each(3, -1, 2)
        pairs = [n for a in (2, 1, 0) for n in (before[a], after[a])]
        self.case(
            {"x": x}, "pad", {"start": before, "end": after, "value": 0.25}, lambda x: F.pad(x, pairs, value=0.25)
        )
        order = self.pick.sample(range(3), 3)
        self.case({"x": x}, "permute", {"order": order}, lambda x: x.permute(order))
        self.case({"x": x}, "flip", {"dims": order[:2]}, lambda x: x.flip(order[:2]))
        self.case({"x": x}, "reshape", {"shape": [-1, 6]}, lambda x: x.reshape(-1, 6))
        self.case({"x": [3, 1]}, "expand", {"shape": [2, -1, 4]}, lambda x: x.expand(2, -1, 4))
        other = list(x)
        other[axis] = 2
        self.case({"a": x, "b": other}, "concat", {"axis": axis}, lambda a, b: torch.cat([a, b], axis))
        self.case(
            {"x": [1, 2, 2, 3]}, "upsample", {"scale": [2, 3]}, lambda x: F.interpolate(x, scale_factor=[2.0, 3.0])
        )
        norms = [1, 1, 1]
        norms[axis] = x[axis]
        self.case({"v": x, "g": norms}, "weight_norm", {"axis": axis}, lambda v, g: torch._weight_norm(v, g, axis % 3))


def main():
    cases = Cases()

    def until(count, make):  # PyTorch refuses some of the parameters that are drawn
        goal = cases.count + count
        while cases.count < goal:
            make()

    until(40, lambda: cases.convolution(transposed=True))
    until(20, lambda: cases.convolution(transposed=False))
    for kind in ("max", "avg", "adaptive_max", "adaptive_avg"):
        until(12, lambda kind=kind: cases.pool(kind, gradient=False))
        until(12, lambda kind=kind: cases.pool(kind, gradient=True))
    for kind in ("batch", "group", "instance", "layer") * 3:
        cases.norm(kind)
    cases.pointwise()
    for op in ("sum", "mean", "amax", "amin", "logsumexp", "var", "softmax", "log_softmax") * 4:
        cases.reduction(op)
    for _ in range(5):
        cases.shapes()
    until(30, lambda: cases.interpolation(gradient=False))
    until(15, lambda: cases.interpolation(gradient=True))


if __name__ == "__main__":
    main()
