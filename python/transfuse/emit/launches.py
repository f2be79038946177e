"""A program of a file: its kernels, and the launches with formulas of the sizes for everything they are given."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Parameter:
    """Of a kernel. `value`: host code that gives it; a pointer, a number, or the braces of a struct."""

    type: str
    name: str
    value: str
    constant: int | None = None


@dataclass
class Kernel:
    name: str
    text: str  # the whole source, entry renamed, signature as `parameters` say
    parameters: list[Parameter]


@dataclass
class Launch:
    kernel: Kernel
    grid: str
    block: int
    shared: int
    cluster: int
    early: bool
    note: str


def written(launch: Launch) -> list[str]:
    """Where a launch writes to, as host code says it."""
    return [p.value for p in launch.kernel.parameters if "*" in p.type and not p.type.startswith("const ")]


@dataclass
class Told:
    """How kernels are launched once their texts are brief. unread: of each kernel those parameters that are gone from it. order: of some
    which of the others come in turn. instead: of some the kernel that does what they did, and what it is told. In place of a
    parameter that a kernel does not read itself stands what is given for it."""

    unread: dict[str, set[int]] = field(default_factory=dict)
    order: dict[str, list[int | str]] = field(default_factory=dict)
    instead: dict[str, tuple[str, list[int | str]]] = field(default_factory=dict)

    def call(self, name: str, values: list[str]) -> tuple[str, list[str]]:
        """The kernel, and its arguments, that stand for a kernel which was given these."""
        left = [value for i, value in enumerate(values) if i not in self.unread.get(name, ())]
        instead, told = self.instead.get(name, (name, None))
        for order in (self.order.get(name), told):
            left = left if order is None else [left[i] if isinstance(i, int) else i for i in order]
        return instead, left


@dataclass
class Program:
    kernels: list[Kernel]
    launches: list[Launch]
    extents: list[tuple[str, str]]  # named, and their formulas
    workspace: list[tuple[str, str]]  # begin of each region of it: name and formula
    bytes: str
    outputs: list[tuple[str, list[str]]]  # dtype and extents
    grains: dict[str, int]
    notes: list[str] = field(default_factory=list)
    entries: list[str] = field(default_factory=list)  # what the generators call the kernels
    largest: list[str] = field(default_factory=list)  # elements of the largest tensors: offsets have 32 bits
    tf32: bool = False  # some of its products are rounded to it
    beyond: list[str] = field(default_factory=list)  # conditions: a block would keep more than its text has room for
    optional: list[int] = field(
        default_factory=list
    )  # outputs that a caller may go without: launches for them alone are left out

    @property
    def kinds(self) -> list[str]:
        """What its launches are, whatever the sizes: how they were cut, without shapes and numbers of blocks."""
        return [re.sub(r"\[[\d,]*\]|\d+ blocks", "", launch.note) for launch in self.launches]

    @property
    def dense(self) -> int:
        """How many of its kernels run on tensor cores."""
        return sum("wgmma" in kernel.text for kernel in self.kernels)


@dataclass
class Programs:
    """Of each arithmetic ("fp32", "wide", "strict", "half") the variants of a program with their conditions. Some are stated
    only when they are asked for: a file that is long without them has none."""

    stated: dict[str, list[tuple[str, Program]]]
    later: dict[str, Callable[[], list[tuple[str, Program]]]] = field(default_factory=dict)
    alone: dict[str, Callable[[], list[tuple[str, Program]]]] = field(
        default_factory=dict
    )  # "half" in a file of its own; "half rows"
    full: bool = False  # for fp32 there are kernels in full fp32 alone, because `optimize` multiplies the example so
    own_rows: bool = False  # in 16 bits there are kernels for rows of the example's length alone

    @property
    def arithmetics(self) -> list[str]:
        return [*self.stated, *(a for a in self.later if a not in self.stated)]

    def __contains__(self, arithmetic: str) -> bool:
        return arithmetic in self.arithmetics

    def __getitem__(self, arithmetic: str) -> list[tuple[str, Program]]:
        if arithmetic not in self.stated:
            self.stated[arithmetic] = self.later[arithmetic]()
        return self.stated[arithmetic]

    def of(self, arithmetic: str) -> list[tuple[str, Program]]:
        """Where an arithmetic has none of its own, those of fp32."""
        return self[arithmetic if arithmetic in self else "fp32"]

    def without_general(self) -> Programs:
        """Without kernels of their own for sizes that others cannot take: those are computed in PyTorch's operators."""
        return Programs(
            {key: [v for v in list_ if v[0]] or list_ for key, list_ in self.stated.items()}, self.later, self.alone
        )

    def for_own_rows(self) -> Programs:
        """In 16 bits with the first variant alone: other rows than the example's are computed in PyTorch's operators."""
        if "half" not in self:
            return self
        return Programs({**self.stated, "half": self["half"][:1]}, self.later, self.alone, self.full)

    def like_fp32(self) -> Programs:
        """In 16 bits for rows of one length alone, where fp32's kernels have others beside them for all other lengths."""
        if "wide" not in self or "half rows" not in self.alone:
            return self
        stated = {key: list_ for key, list_ in self.stated.items() if key != "half"}
        return Programs(stated, {**self.later, "half": self.alone["half rows"]}, self.alone, self.full, True)

    def standing_alone(self) -> Programs:
        """As files have them that are for one arithmetic: nothing has to be said in one text with another's."""
        own = {key: found for key, found in self.alone.items() if key == "half"}
        return Programs({k: v for k, v in self.stated.items() if k not in own}, {**self.later, **own}, {}, self.full)

    def changed(self, change: Callable[[Program], Program]) -> Programs:
        """With every program changed, those too that are stated later."""
        each = lambda list_: [(condition, change(program)) for condition, program in list_]  # noqa: E731
        asked = (self.later, self.alone)
        lists = [{k: (lambda found=found: each(found())) for k, found in of.items()} for of in asked]
        return Programs({key: each(list_) for key, list_ in self.stated.items()}, *lists)
