"""The rooms of src/algebra and of the engines: includes run one way, down the tables of docs/design."""

import re
from pathlib import Path

import pytest

root = Path(__file__).resolve().parents[2]
TABLES = {"algebra": "algebra.md", "cpu": "engines.md", "cuda": "cuda.md"}


def rows(page: str) -> list[list[str]]:
    """The table's first column: rooms that use none of those below."""
    text = (root / "docs/design" / page).read_text()
    table = text.partition("| room | what it is for |")[2].partition("\n\n")[0]
    return [re.findall(r"`([a-z_0-9/]+)/`", line.split("|")[1]) for line in table.splitlines() if "`" in line]


def room_of(house: str, file: str, rooms: dict[str, int]) -> str:
    """The innermost that the table names."""
    folder = file.rpartition("/")[0]
    while folder not in rooms:
        assert "/" in folder, f"src/{house}/{file} stands in no room of docs/design/{TABLES[house]}"
        folder = folder.rpartition("/")[0]
    return folder


@pytest.mark.parametrize("house", TABLES)
def test_includes_run_one_way(house):
    table = rows(TABLES[house])
    rooms = {room: i for i, row in enumerate(table) for room in row}
    assert len(rooms) == sum(map(len, table)), "a room stands twice in the table"
    missing = [room for room in rooms if not (root / "src" / house / room).is_dir()]
    assert not missing, f"docs/design/{TABLES[house]} names rooms that are not there: {missing}"
    arrows: dict[tuple[str, str], list[str]] = {}
    for path in sorted((root / "src" / house).rglob("*")):
        if path.suffix not in (".h", ".cpp"):
            continue
        file = str(path.relative_to(root / "src" / house))
        room = room_of(house, file, rooms)
        for included in re.findall(rf'#include "{house}/([^"]+)"', path.read_text()):
            arrows.setdefault((room, room_of(house, included, rooms)), []).append(f"{file} includes {included}")
    assert len(arrows) > len(rooms), "there is nothing to look at"
    for (room, used), files in sorted(arrows.items(), key=lambda arrow: (rooms[arrow[0][0]], rooms[arrow[0][1]])):
        if room != used:
            print(f"{room} -> {used} ({len(files)})")
    up = [file for (room, used), files in arrows.items() if rooms[used] > rooms[room] for file in files]
    assert not up, "includes that come back up:\n" + "\n".join(up)
