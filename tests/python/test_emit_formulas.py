"""Launch shapes and sizes of emitted files as formulas of the tensors' sizes."""

import random

import pytest

from transfuse import emit
from transfuse.emit.formula import Statement, Unstated
from transfuse.emit.sizes import Sized, Symbol


def test_formulas_are_found_and_hold():
    chance = random.Random(0)
    h = [chance.randint(3, 500) for _ in range(60)]
    w = [chance.randint(3, 500) for _ in range(60)]
    statement = Statement({"h": h, "w": w})
    cases = {
        "2 * h + 3": [2 * a + 3 for a in h],
        "h * w": [a * b for a, b in zip(h, w)],
        "ceil_div(h * w, 96)": [-(-a * b // 96) for a, b in zip(h, w)],
        "256 * ceil_div(h * w, 64)": [256 * -(-a * b // 64) for a, b in zip(h, w)],
        "17": [17] * 60,
    }
    for text, values in cases.items():
        assert statement.state(values).text == text
    with pytest.raises(Unstated):
        statement.state([chance.randint(0, 10**6) for _ in h])
    small = Statement({"h": [3, 40, 50, 7, 60, 9, 80], "w": [11, 20, 30, 5, 70, 90, 8]})
    assert small.state([512 * min(132, a * b) for a, b in zip(*(v for _, v in small.bases))]).text == (
        "512 * std::min<long long>(132, h * w)"
    )
    blocks, padded = [128 * min(132, a) for a in h], [2 * -(-a // 2) * b for a, b in zip(h, w)]
    assert statement.state(blocks).text == "128 * std::min<long long>(132, h)"
    assert statement.state(padded).text == "2 * w * ceil_div(h, 2)"
    across = [-(-68 * (a + 1) // 128) for a in h]  # windows of 128 pixels, over rows of 68
    assert statement.state(across).text == "(17 * h + 48) / 32"


def test_where_other_sizes_ask_for_other_kernels_a_program_is_for_the_examples(monkeypatch):
    asked = []

    def programs_of(at, name, fixed):
        asked.append(fixed)
        if len(fixed) < 3:
            raise Unstated("other kernels")
        return "programs"

    monkeypatch.setattr(emit, "programs_of", programs_of)
    names = ("batch", "height", "width")
    at = Sized(None, [Symbol(name, 0, axis, 8, 1) for axis, name in enumerate(names)], [], [], [])
    assert emit.variants(at, "forward") == "programs" and asked == [(), names[1:], names]
