"""Errors of results with long tails: luck is no fault, and larger errors are."""

import long_tails
import pytest
import torch
import zoo

from transfuse.bench import accuracy


def results(factor, seed=0, power=9, count=2000):
    """Ours, PyTorch's and the truth: relative errors of normal spread, ours so many times PyTorch's."""
    generator = torch.Generator().manual_seed(seed)
    draw = lambda: torch.randn(count, generator=generator, dtype=torch.float64)  # noqa: E731
    true = draw().abs().pow(power)
    return [true * (1 + factor * 1e-6 * draw())], [true * (1 + 1e-6 * draw())], [true]


def test_tails_are_told():
    def told(**how):
        _, (pytorch,), (true,) = results(1.0, **how)
        return long_tails.has_long_tail(pytorch - true)

    assert told() and told(count=288) and not told(power=0) and not told(power=0, count=288)
    assert not told(count=100)  # too few to say


@pytest.mark.parametrize("seed", range(20))
def test_equal_errors_are_right(seed):
    assert long_tails.verdict(*results(1.0, seed)) == "right"


def test_larger_errors_are_wrong():
    said = [long_tails.verdict(*results(1.5, seed)) for seed in range(20)]
    assert sum(verdict != "right" for verdict in said) >= 10  # the others had luck with the RMS


class Power(torch.nn.Module):
    """Ninth powers of six numbers; in fp32 with relative errors that differ from number to number, and with `turn`."""

    def __init__(self, turn, size):
        super().__init__()
        self.turn, self.size = turn, size

    def forward(self, x):
        exact = x.double()[:6].pow(9)
        if x.dtype == torch.float64:
            return exact
        return (exact * (1 + self.size * torch.sin(1e5 * self.turn * x.double()[:6]))).float()


def test_few_draws_of_a_long_tail_ask_for_more():
    def said(size):
        inputs = [torch.randn(600, generator=torch.Generator().manual_seed(seed)) for seed in range(20)]
        ours, pytorch = Power(1.7, size), Power(1.0, 1e-5)
        return [zoo.verdict_of_draws(ours, pytorch, [x], fresh=zoo.shuffled)[0] for x in inputs]

    assert said(1e-5) == ["right"] * 20
    assert said(4e-5).count("right") < 5  # luck at the first draws


def test_the_ratio_is_that_of_the_errors():
    for factor in (0.5, 1.0, 2.0):
        (ours,), (pytorch,), (true,) = results(factor, count=20000)
        assert long_tails.ratio_by_elements(ours - true, pytorch - true) == pytest.approx(factor, rel=0.05)


def test_a_gross_error_of_one_element_is_wrong():
    (ours,), pytorch, (true,) = results(1.0)
    ours[true.argmax()] *= 1.001
    assert "worst" in long_tails.verdict([ours], pytorch, [true]) or "rms" in long_tails.verdict(
        [ours], pytorch, [true]
    )


def test_results_without_tails_are_compared_as_ever():
    ours, pytorch, true = results(1.3, power=0)
    assert "rms" in long_tails.verdict(ours, pytorch, true)
    assert long_tails.verdict([torch.full((8,), torch.nan)], [torch.ones(8)], [torch.ones(8).double()]) != "right"


def test_an_error_leaves_its_result_alone():
    (ours,), _, (true,) = results(1.0)
    before = ours.clone()
    accuracy.error(ours, true)
    assert torch.equal(ours, before)
