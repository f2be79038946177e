"""The rooms of src/algebra, of the engines and of python/transfuse: who uses whom runs one way, down the tables of docs."""

import ast
import graphlib
import re
from pathlib import Path

import pytest

root = Path(__file__).resolve().parents[2]
HOUSES = {
    "src/algebra": "docs/design/algebra.md",
    "src/cpu": "docs/design/cpu.md",
    "src/cuda": "docs/design/cuda.md",
    "python/transfuse": "docs/pytorch.md",
}


def rows(page: str) -> list[list[str]]:
    """The table's first column: rooms that use none of those below. A file may be a room of its own."""
    table = (root / page).read_text().partition("| room | what it is for |")[2].partition("\n\n")[0]
    return [re.findall(r"`([a-z_0-9/.]+?)/?`", line.split("|")[1]) for line in table.splitlines() if "`" in line]


def room_of(house: str, file: str, rooms: dict[str, int]) -> str:
    """The innermost that the table names."""
    room = file
    while room not in rooms:
        assert "/" in room, f"{house}/{file} stands in no room of {HOUSES[house]}"
        room = room.rpartition("/")[0]
    return room


def included(house: str, file: Path) -> list[str]:
    """The files of the house that a file names, wherever in it."""
    text = file.read_text()
    if file.suffix != ".py":
        return re.findall(rf'#include "{house.removeprefix("src/")}/([^"]+)"', text)
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            modules = [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            package = file.relative_to(root / "python").parts[: -node.level] if node.level else ()
            module = ".".join([*package, *([node.module] if node.module else [])])
            modules = [f"{module}.{name.name}" for name in node.names]
        else:
            continue
        found += [module for module in modules if module.partition(".")[0] == "transfuse"]
    return [python_file(root / house, module.split(".")[1:]) for module in found]


def python_file(house: Path, names: list[str]) -> str:
    """The module's file: `names` may end in a name that stands in it."""
    path = house
    for name in names:
        if (path / f"{name}.py").exists():
            return str((path / f"{name}.py").relative_to(house))
        if not (path / name).is_dir():
            break
        path = path / name
    return str((path / "__init__.py").relative_to(house))


@pytest.mark.parametrize("house", HOUSES)
def test_includes_run_one_way(house):
    table = rows(HOUSES[house])
    rooms = {room: i for i, row in enumerate(table) for room in row}
    assert len(rooms) == sum(map(len, table)), "a room stands twice in the table"
    missing = [room for room in rooms if not (root / house / room).exists()]
    assert not missing, f"{HOUSES[house]} names rooms that are not there: {missing}"
    arrows: dict[tuple[str, str], list[str]] = {}
    for path in sorted((root / house).rglob("*")):
        if path.suffix not in (".h", ".cpp", ".py"):
            continue
        file = str(path.relative_to(root / house))
        room = room_of(house, file, rooms)
        for used in included(house, path):
            arrows.setdefault((room, room_of(house, used, rooms)), []).append(f"{file} includes {used}")
    assert len(arrows) > len(rooms), "there is nothing to look at"
    for (room, used), files in sorted(arrows.items(), key=lambda arrow: (rooms[arrow[0][0]], rooms[arrow[0][1]])):
        if room != used:
            print(f"{room} -> {used} ({len(files)})")
    up = [file for (room, used), files in arrows.items() if rooms[used] > rooms[room] for file in files]
    assert not up, "includes that come back up:\n" + "\n".join(up)


def test_python_modules_know_no_circle():
    house = root / "python/transfuse"
    files = {str(path.relative_to(house)): path for path in house.rglob("*.py")}
    uses = {file: {used for used in included("python/transfuse", path) if used != file} for file, path in files.items()}
    assert "cut/regions.py" in uses["backend.py"] | uses["calls/dispatch.py"], "there is nothing to look at"
    graphlib.TopologicalSorter(uses).prepare()  # raises CycleError with the circle
