"""The models of folders as graphs that write.cpp reads, as this Python package captures them: rows.py OUT FOLDER…"""

import sys
from pathlib import Path

import torch

import transfuse
from transfuse import problem

SETTINGS = ("f32 strict", "f32 tf32", "f16 strict", "f16 strict last")


def unfilled(*sizes, **options):
    """In place of random numbers: nobody reads what full-size inputs hold, so their memory is never touched."""
    return torch.empty(*sizes, **options)


def graphs(file: Path):
    """The text of every region with its gradient's request, in train mode and where they differ in eval."""
    torch.rand = torch.randn = unfilled
    reference = problem.load(file)
    model, inputs = reference.model(), tuple(reference.inputs())
    for train in (True, False):
        optimized = transfuse.optimize(model.train(train), inputs, never_slower=False, dynamic=False)
        state = optimized.__dict__["_transfuse"]
        if state.failures:
            raise SystemExit(f"{file}: {state.failures[0]}")
        for entries in state.captures.values():
            for region in (region for entry in entries for region in entry.cut.regions):
                reached = sorted(set().union(*region.reach))
                outputs = [o for o, leaves in enumerate(region.reach) if leaves]
                request = (
                    f"# gradient {' '.join(map(str, outputs))} : {' '.join(map(str, reached))}\n" if reached else ""
                )
                yield region.name, request, region.example


def main(out: Path, folders: list[str]) -> None:
    settings = "".join(f"# setting {setting}\n" for setting in SETTINGS)
    for file in sorted(file for folder in folders for file in Path(folder).glob("*.py")):
        met = []
        for name, request, text in graphs(file):
            if (name, text) not in met:
                met.append((name, text))
                title = f"{file.stem} {name}" + (f".{len(met)}" if len(met) > 1 else "")
                (out / f"row-{title.replace(' ', '-')}.tf").write_text(f"# name {title}\n{request}{settings}{text}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
