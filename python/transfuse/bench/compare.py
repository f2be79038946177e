"""Two runs beside each other: what became slower by more than the noise."""

from __future__ import annotations

from .table import NAMES, number, times

SMALLEST = 0.03  # changes below this are never called one


def noise(values: dict) -> float:
    """Half the distance between the quartiles, relative to the median."""
    if not values.get("ms") or "q1" not in values:
        return 0.0
    return (values["q3"] - values["q1"]) / 2 / values["ms"]


def key(result: dict) -> tuple:
    return result["id"], result["precision"], result["backward"], str(result.get("inputs"))


def compare(old: dict, new: dict) -> tuple[str, int]:
    """Markdown, and the number of regressions of ours: times above the noise, and results that were there and are not."""
    before = {key(r): r for r in old["rows"]}
    lines, worse, common = [], 0, 0
    for result in new["rows"]:
        past = before.pop(key(result), None)
        if past is None:
            continue
        common += 1
        for name in ("transfuse", "transfuse_channels_last", *NAMES):
            a, b = past["peers"].get(name, {}), result["peers"].get(name, {})
            mine = name.startswith("transfuse")
            if a.get("ms") and not b.get("ms") and mine:
                worse += 1
                lines.append(
                    [
                        result["id"],
                        name,
                        number(a["ms"]),
                        "—",
                        "",
                        f"**lost**: {b.get('verdict') or b.get('failed') or result['status']}",
                    ]
                )
            if not a.get("ms") or not b.get("ms"):
                continue
            change, blur = b["ms"] / a["ms"], max(SMALLEST, 2 * (noise(a) + noise(b)))
            if abs(change - 1) <= blur:
                continue
            word = "**slower**" if change > 1 else "faster"
            worse += mine and change > 1
            lines.append(
                [result["id"], name, number(a["ms"]), number(b["ms"]), times(change), word + f" (noise {blur:.0%})"]
            )
    where = f"{old['commit']} ({old['date']}) → {new['commit']} ({new['date']}), {new.get('device', '')}"
    text = [f"{where}: {common} rows in both, {worse} regressions of transfuse"]
    if old.get("device") != new.get("device"):
        text.append(f"The runs come from different devices ({old.get('device')}): times do not compare.")
    if lines:
        text += ["", "| id | what | old ms | new ms | new/old | |", "|" + " --- |" * 6]
        text += ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join(text), int(worse)
