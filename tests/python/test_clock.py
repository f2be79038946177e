"""How many calls decide which of two ways is faster."""

import pytest

from transfuse.run import clock


def told(*samples):
    """A clock that says so of each call, in turn."""
    given = [iter(of_one) for of_one in samples]
    return lambda i: next(given[i])


@pytest.mark.parametrize("clear", [(), clock.CLEAR])
def test_one_disturbed_call_decides_nothing(clear):
    """However long a call takes: each is asked again while they lie close."""
    assert clock._in_turns(told([3.0, 1.0, 1.0], [2.0, 2.0, 2.0]), [1, 1], clock.MORE_ROUNDS, clear) == [1.0, 2.0]


def test_what_lies_far_apart_is_not_asked_again():
    assert clock._in_turns(told([3.0], [1.0]), [1, 1]) == [3.0, 1.0]
    assert clock._in_turns(told([3.0], [1.0]), [1, 1], clock.MORE_ROUNDS, ()) == [3.0, 1.0]
    assert clock._in_turns(told([3.0, 1.5], [2.0, 2.0]), [1, 1], clock.MORE_ROUNDS, ()) == [1.5, 2.0]


def test_short_calls_are_asked_in_all_rounds():
    many = [1e-3] * clock.MORE_ROUNDS
    assert clock._in_turns(told([*many[1:], 5e-4], many), [1, 1], clock.MORE_ROUNDS, ()) == [5e-4, 1e-3]
