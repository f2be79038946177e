"""The stress test of stress.py, which has a command for longer ones, for some seconds."""

import stress


def test_threads_that_capture_and_serve(no_fallback):
    counts = stress.threads(6.0, "cpu")
    assert counts["captures"] > 0 and min(counts[f"serves {i}"] for i in range(3)) > 0


def test_memory_is_flat_over_many_sizes():
    kept = stress.sizes(1000, "cpu", blocks=12)
    assert stress.grown(kept) < 16 << 20, kept
    assert kept[-1][0] < 2 * len(stress.library._programs) << 26 and kept[-1][0] > 1 << 20
