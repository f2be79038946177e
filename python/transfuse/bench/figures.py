"""Plots as plain SVG: the roofline, the bars against PyTorch, and lines for scaling. No library, no network."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from html import escape

from .table import against, best_pytorch, ms, number, ours, times

INK, FAINT, GRID = "#1f2933", "#7b8794", "#e4e7eb"
WRITTEN, OURS, BEST = "#9aa5b1", "#d64545", "#3e7cb1"
SERIES = ["#3e7cb1", "#4c9a6a", "#b7791f", "#7b5ea7", "#52606d"]
FONT = 'font-family="system-ui,-apple-system,Segoe UI,Helvetica,Arial,sans-serif"'


@dataclass
class Axis:
    """A logarithmic axis from data to pixels."""

    low: float
    high: float
    start: float
    end: float
    base: float = 10.0

    def __call__(self, value: float) -> float:
        value = min(max(value, self.low), self.high)
        part = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + part * (self.end - self.start)

    def ticks(self) -> list[float]:
        first, last = (math.log(v, self.base) for v in (self.low, self.high))
        return [self.base**e for e in range(math.ceil(first - 1e-9), math.floor(last + 1e-9) + 1)]


def span(values: list[float], margin: float = 1.6) -> tuple[float, float]:
    low, high = min(values) / margin, max(values) * margin
    return (low, high) if high > 4 * low else (low / 2, high * 2)


@dataclass
class Canvas:
    width: int
    height: int
    label: str
    parts: list[str] = field(default_factory=list)

    def line(self, x1, y1, x2, y2, colour=GRID, width=1.0, extra="") -> None:
        self.parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}" {extra}/>'
        )

    def path(self, points, colour, width=2.0, extra="") -> None:
        d = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{d}" fill="none" stroke="{colour}" stroke-width="{width}" {extra}/>')

    def dot(self, x, y, colour, title, radius=4.5, hollow=False) -> None:
        fill = "#ffffff" if hollow else colour
        self.parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{fill}" stroke="{colour}" stroke-width="1.5">'
            f"<title>{escape(title)}</title></circle>"
        )

    def rect(self, x, y, w, h, colour, title="") -> None:
        inside = f"<title>{escape(title)}</title>" if title else ""
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(w, 0):.1f}" height="{h:.1f}" fill="{colour}" rx="1.5">{inside}</rect>'
        )

    def text(self, x, y, words, size=12, anchor="start", colour=INK, bold=False, extra="") -> None:
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}"{weight} '
            f'paint-order="stroke" stroke="#ffffff" stroke-width="3" stroke-linejoin="round" {extra}>{escape(words)}</text>'
        )

    def svg(self) -> str:
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" role="img" '
            f'aria-label="{escape(self.label)}" {FONT}><rect width="{self.width}" height="{self.height}" fill="#ffffff" rx="6"/>'
            + "".join(self.parts)
            + "</svg>"
        )


def unit(value: float, suffix: str) -> str:
    for factor, letter in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:.3g} {letter}{suffix}"
    return f"{value:.3g} {suffix}"


def points(result: dict) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """(intensity, flop/s) as written, op by op at eager PyTorch's time, and as rewritten at ours."""
    eager, mine, counted = (
        ms(result, "eager"),
        ours(result),
        ("flops_before", "bytes_before", "flops_after", "bytes_after"),
    )
    flops, moved, flops_after, moved_after = (result.get(name) for name in counted)
    if not eager or not mine or not flops or not moved or not flops_after or not moved_after:
        return None  # among them rows of runs that were not asked for derivations
    return (flops / moved, flops / eager * 1e3), (flops_after / moved_after, flops_after / mine[1] * 1e3)


def roofline(report: dict, precision: str | None = None) -> str:
    precision = precision or next(iter(report["peaks"]))
    peak = report["peaks"][precision]
    known = [(r, p) for r in report["rows"] if r["precision"] == precision and (p := points(r))]
    canvas = Canvas(520, 470, "Roofline: every model as written and as rewritten")
    left, right, top, bottom = 62, 508, 66, 420
    xs = [x for _, pair in known for x, _ in pair] + [peak["flops"] / peak["bandwidth"]]
    ys = [y for _, pair in known for _, y in pair] + [peak["flops"]]
    x = Axis(*span(xs), left, right)
    y = Axis(*span(ys), bottom, top)
    for tick in x.ticks():
        canvas.line(x(tick), top, x(tick), bottom)
        canvas.text(x(tick), bottom + 17, f"{tick:g}", 11, "middle", FAINT)
    for tick in y.ticks():
        canvas.line(left, y(tick), right, y(tick))
        canvas.text(left - 7, y(tick) + 4, unit(tick, ""), 11, "end", FAINT)
    knee = peak["flops"] / peak["bandwidth"]
    begin = max(x.low, y.low / peak["bandwidth"])
    roof = [(begin, begin * peak["bandwidth"]), (knee, peak["flops"]), (x.high, peak["flops"])]
    canvas.path([(x(a), y(b)) for a, b in roof], INK, 1.6)
    canvas.text(right, y(peak["flops"]) - 16, unit(peak["flops"], "FLOP/s"), 11, "end", INK)
    slope_at = math.sqrt(begin * knee)
    canvas.text(x(slope_at) - 8, y(slope_at * peak["bandwidth"]) - 6, unit(peak["bandwidth"], "B/s"), 11, "end", INK)
    for result, (written, rewritten) in known:
        a, b = (x(written[0]), y(written[1])), (x(rewritten[0]), y(rewritten[1]))
        canvas.line(*a, *b, OURS, 0.9, 'stroke-opacity="0.35"')
        speed = ms(result, "eager") / ours(result)[1]
        canvas.dot(
            *a,
            WRITTEN,
            f"{result['id']} as written: {written[0]:.3g} flop/byte, {unit(written[1], 'FLOP/s')}",
            hollow=True,
        )
        canvas.dot(
            *b,
            OURS,
            f"{result['id']} as rewritten: {rewritten[0]:.3g} flop/byte, {unit(rewritten[1], 'FLOP/s')}, {times(speed)} eager",
        )
        canvas.text(b[0] + 6, b[1] - 5, result["id"], 11, "start", INK)
    canvas.text(16, 24, "Roofline", 15, bold=True)
    canvas.dot(24, 42, WRITTEN, "as written", hollow=True)
    canvas.text(34, 46, "as written, op by op, eager PyTorch", 12, colour=FAINT)
    canvas.dot(264, 42, OURS, "as rewritten")
    canvas.text(274, 46, "as rewritten, Transfuse", 12, colour=FAINT)
    canvas.text((left + right) / 2, bottom + 38, "arithmetic intensity, flop per byte moved", 12, "middle", FAINT)
    canvas.text(
        16, (top + bottom) / 2, "FLOP/s", 12, "middle", FAINT, extra=f'transform="rotate(-90 16 {(top + bottom) / 2})"'
    )
    return canvas.svg()


def bars(report: dict, precision: str | None = None) -> str:
    """Speed against eager PyTorch, logarithmic: the best PyTorch and ours."""
    precision = precision or next(iter(report["peaks"]))
    results = [r for r in report["rows"] if r["precision"] == precision and ms(r, "eager") and ours(r)]
    step, top, left = 34, 82, 70
    canvas = Canvas(520, top + step * max(1, len(results)) + 16, "Speed against eager PyTorch")
    canvas.text(16, 24, "Speed against eager PyTorch (= 1)", 15, bold=True)
    if not results:
        return canvas.svg()
    gains = [(r, ms(r, "eager") / best_pytorch(r)[1], ms(r, "eager") / ours(r)[1]) for r in results]
    x = Axis(
        min(0.8, *(g for _, *pair in gains for g in pair)),
        max(2.5, *(g for _, *pair in gains for g in pair)) * 1.25,
        left,
        425,
    )
    for tick in (0.25, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000):
        if x.low <= tick <= x.high:
            canvas.line(x(tick), top - 8, x(tick), canvas.height - 14, FAINT if tick == 1 else GRID)
            canvas.text(x(tick), top - 13, f"{tick:g}×", 10, "middle", FAINT)
    for i, (result, best, mine) in enumerate(gains):
        y = top + i * step
        canvas.text(left - 8, y + 18, result["id"], 12, "end", bold=True)
        begin = x(min(1.0, x.high))
        for offset, gain, colour, who in ((3, best, BEST, best_pytorch(result)[0]), (15, mine, OURS, ours(result)[0])):
            end = x(gain)
            time = ms(result, who)
            canvas.rect(
                min(begin, end),
                y + offset,
                max(abs(end - begin), 2),
                10,
                colour,
                f"{result['id']} {who}: {number(time)} ms, {times(gain)} eager",
            )
            canvas.text(
                max(begin, end) + 5,
                y + offset + 9,
                f"{times(gain)} · {number(time)} ms",
                10,
                colour=INK if colour == OURS else FAINT,
            )
    canvas.rect(18, 37, 10, 10, BEST)
    canvas.text(33, 46, against(results), 12, colour=FAINT)
    canvas.rect(340, 37, 10, 10, OURS)
    canvas.text(355, 46, "Transfuse", 12, colour=FAINT)
    return canvas.svg()


def lines(title: str, x_label: str, series: dict[str, list[tuple[float, float]]]) -> str:
    """Milliseconds against one size, both logarithmic."""
    canvas = Canvas(380, 300, title)
    left, right, top, bottom = 56, 366, 40, 226
    every = [p for line in series.values() for p in line]
    canvas.text(14, 22, title, 13, bold=True)
    if not every:
        return canvas.svg()
    x = Axis(*span([p[0] for p in every], 1.15), left, right, 2.0)
    y = Axis(*span([p[1] for p in every], 1.4), bottom, top)
    for tick in sorted({p[0] for p in every}):
        canvas.line(x(tick), top, x(tick), bottom)
        canvas.text(x(tick), bottom + 15, f"{tick:g}", 10, "middle", FAINT)
    for tick in y.ticks():
        for part in (1, 2, 5):
            if y.low <= tick * part <= y.high:
                canvas.line(left, y(tick * part), right, y(tick * part))
                canvas.text(left - 5, y(tick * part) + 3, f"{tick * part:g}", 10, "end", FAINT)
    for i, (name, line) in enumerate(series.items()):
        colour = OURS if name == "transfuse" else SERIES[i % len(SERIES)]
        canvas.path([(x(a), y(b)) for a, b in line], colour)
        for a, b in line:
            canvas.dot(x(a), y(b), colour, f"{name}: {a:g}, {number(b)} ms", 3)
        canvas.rect(left + 105 * (i % 3), 264 + 17 * (i // 3), 10, 10, colour)
        canvas.text(left + 14 + 105 * (i % 3), 273 + 17 * (i // 3), name, 11, colour=FAINT)
    canvas.text((left + right) / 2, bottom + 29, x_label, 11, "middle", FAINT)
    canvas.text(14, top - 4, "ms", 10, colour=FAINT)
    return canvas.svg()
