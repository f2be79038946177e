"""The rooms of the CUDA engine: includes run one way, down the table of docs/design/cuda.md."""

import re
from pathlib import Path

root = Path(__file__).resolve().parents[2]


def rows() -> list[list[str]]:
    """The table's first column: rooms that use none of those below."""
    text = (root / "docs/design/cuda.md").read_text()
    table = text.partition("| room | what it is for |")[2].partition("\n\n")[0]
    return [re.findall(r"`([a-z_/]+)/`", line.split("|")[1]) for line in table.splitlines() if "`" in line]


def room_of(file: str, rooms: dict[str, int]) -> str:
    """The innermost that the table names."""
    folder = file.rpartition("/")[0]
    while folder not in rooms:
        assert "/" in folder, f"src/cuda/{file} stands in no room of docs/design/cuda.md"
        folder = folder.rpartition("/")[0]
    return folder


def test_includes_run_one_way():
    rooms = {room: i for i, row in enumerate(rows()) for room in row}
    arrows: dict[tuple[str, str], list[str]] = {}
    for path in sorted((root / "src/cuda").rglob("*")):
        if path.suffix not in (".h", ".cpp"):
            continue
        file = str(path.relative_to(root / "src/cuda"))
        for included in re.findall(r'#include "cuda/([^"]+)"', path.read_text()):
            pair = room_of(file, rooms), room_of(included, rooms)
            arrows.setdefault(pair, []).append(f"{file} includes {included}")
    assert len(arrows) > len(rooms), "there is nothing to look at"
    for (room, used), files in sorted(arrows.items(), key=lambda arrow: (rooms[arrow[0][0]], rooms[arrow[0][1]])):
        if room != used:
            print(f"{room} -> {used} ({len(files)})")
    up = [file for (room, used), files in arrows.items() if rooms[used] > rooms[room] for file in files]
    assert not up, "includes that come back up:\n" + "\n".join(up)
