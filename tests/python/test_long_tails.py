"""Errors of results with long tails: luck is no fault, and larger errors are."""

import long_tails
import pytest
import torch

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

    assert told() and not told(power=0)
    assert not told(count=100)  # too few to say


@pytest.mark.parametrize("seed", range(20))
def test_equal_errors_are_right(seed):
    assert long_tails.verdict(*results(1.0, seed)) == "right"


def test_larger_errors_are_wrong():
    said = [long_tails.verdict(*results(1.5, seed)) for seed in range(20)]
    assert sum(verdict != "right" for verdict in said) >= 10  # the others had luck with the RMS


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
