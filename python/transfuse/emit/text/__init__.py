"""Device code cut down to one kernel's constants: branches they decide are gone, and what is left is printed anew.

The generators share their texts among all kernels; which way a kernel goes is said by constants above them. A reader of one
file should see that way alone. Names of constants stay where they say something; only what they decide is simplified.
"""

from __future__ import annotations

from transfuse.emit.text.arrays import begun, within
from transfuse.emit.text.layout import ENDLESS, printed, wide
from transfuse.emit.text.macros import expanded
from transfuse.emit.text.prune import pruned, without_unused
from transfuse.emit.text.statements import Parser
from transfuse.emit.text.tokens import tokens


def specialised(text: str, known: dict[str, int], last: bool = False) -> str:
    """A top-level declaration for these constants; lines are as long as they are (see `folded`). last: nothing will be decided
    later, so what is computed to be read once stands where it is read."""
    for unroll in ("UNROLL for", '_Pragma("unroll") for'):  # printed before, or written on one line
        text = text.replace(unroll, "\n#pragma unroll\nfor")
    nodes = pruned(Parser(expanded(tokens(text))).body(), known)
    with wide(ENDLESS):
        return "\n".join(printed(within(begun(without_unused(nodes))) if last else without_unused(nodes)))
