"""Kernels that read 16 bits by wider vectors: one text with the numbers of both, where nothing else differs."""

from dataclasses import replace

import pytest

from transfuse.emit import widths
from transfuse.emit.launches import Kernel, Launch, Parameter, Program


def program(text: str, extents=(("count_1", "ceil_div(height, 64)"),), value: str = "count_1") -> Program:
    kernel = Kernel("forward_sum", text, [Parameter("double*", "p1", "at_0"), Parameter("int", "count_1", value)])
    return Program([kernel], [Launch(kernel, "count_1", 256, 0, 1, True, "")], [*extents], [], "", [], {})


SUM = """__global__ void forward_sum(double* p1, int count_1) {
    const %s pack = load<%s>(threadIdx.x * %s);
    rows[threadIdx.x / %s] = sum(pack);
    __syncthreads();
    p1[0] = rows[0] * 2;
}
"""


def test_numbers_for_16_bits_stand_beside_those_for_fp32():
    own, half = program(SUM % ("STORED", 4, 4, 32)), program(SUM % ("tf_half", 8, 8, 16))
    text = widths.both(own, half).launches[0].kernel.text
    assert text == SUM % ("STORED", "PICK_4_8", "PICK_4_8", "PICK_32_16")
    assert "load<PICK(4, 8)>" in widths.said(text) and widths.said(text).startswith(widths.MACRO)
    assert widths.fp32(widths.both(own, half)) == own
    backward = replace(own, launches=[replace(own.launches[0], kernel=replace(own.kernels[0], name="backward_sum"))])
    backward.launches[0].kernel.text = own.kernels[0].text.replace("forward_sum", "backward_sum")
    assert "PICK_4_8" in widths.as_in(backward, widths.both(own, half)).launches[0].kernel.text


@pytest.mark.parametrize(
    "other",
    [
        program(SUM.replace("* 2", "* 4") % ("tf_half", 8, 8, 16)),  # writes another thing
        program(SUM % ("tf_half", 8, 8, 16), (("count_1", "ceil_div(height, 128)"),)),  # other blocks
        program(SUM % ("tf_half", 8, 8, 16), value="height"),
        program(SUM.replace("rows[threadIdx.x", "p1[threadIdx.x") % ("tf_half", 8, 8, 16)),
        program(SUM.replace("sum(pack)", "max(pack)") % ("tf_half", 8, 8, 16)),
    ],
)
def test_other_kernels_for_16_bits_are_not_taken(other):
    own = program(SUM % ("STORED", 4, 4, 32))
    assert widths.both(own, other) == own


def test_what_is_written_before_the_last_barrier_is_one_text_for_all():
    early = SUM.replace("rows[threadIdx.x", "p1[threadIdx.x")
    own = program(early % ("STORED", 4, 4, 32))
    assert widths.both(own, program(early % ("tf_half", 8, 8, 16))) == own
