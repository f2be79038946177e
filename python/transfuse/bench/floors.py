"""The floor under a time, from a row's facts and the machine's peaks. No PyTorch needed: tables are made from JSON alone."""

from __future__ import annotations


def floor_ms(result: dict, report: dict) -> float | None:
    """max(flops / peak, compulsory bytes / bandwidth) of the chain as written, in ms."""
    written, peak = result.get("written"), report["peaks"].get(result["precision"])
    if not written or not peak:
        return None
    return max(written["flops"] / peak["flops"], written["bytes"] / peak["bandwidth"]) * 1e3
