"""The device code of a file: every kernel's source as its generator wrote it. Paragraphs that several sources have stand once."""

from __future__ import annotations

import collections
import itertools

from transfuse.emit.programs import Kernels

SHORT = 400  # characters: a piece that is shared must be worth a name


def device_code(kernels: Kernels) -> str:
    """Python that binds KERNELS: name → (entry, source, compiler options)."""
    paragraphs = {name: text.split("\n\n") for name, (_, text, _) in kernels.texts.items()}
    shared = _shared(paragraphs)
    lines = [f'{piece} = r"""{text}"""\n' for text, piece in shared.items()]
    lines.append("# By name: the entry, the source, options of the compiler.\nKERNELS = {}\n")
    for name, (entry, _, options) in kernels.texts.items():
        said = _pieces(paragraphs[name], shared)
        extra = f", {list(options)!r}" if options else ", []"
        lines.append(f'KERNELS["{name}"] = "{entry}", {said}{extra}\n')
    return "\n".join(lines)


def _shared(paragraphs: dict[str, list[str]]) -> dict[str, str]:
    """Runs of paragraphs that the same sources have, one behind the other in each: text → name."""
    users = collections.defaultdict(set)
    for name, pieces in paragraphs.items():
        for piece in pieces:
            users[piece].add(name)
    found: dict[str, str] = {}
    for pieces in paragraphs.values():
        for run in _runs(pieces, users):
            text = "\n\n".join(run)
            if len(users[run[0]]) > 1 and len(text) >= SHORT and '"""' not in text and text not in found:
                if all(_has(paragraphs[name], run) for name in users[run[0]]):
                    found[text] = f"SHARED_{len(found) + 1}"
    return found


def _runs(pieces: list[str], users) -> list[list[str]]:
    """Neighbours that the same sources have."""
    return [list(run) for _, run in itertools.groupby(pieces, key=lambda piece: sorted(users[piece]))]


def _has(pieces: list[str], run: list[str]) -> bool:
    return any(pieces[i : i + len(run)] == run for i in range(len(pieces)))


def _pieces(pieces: list[str], shared: dict[str, str]) -> str:
    """A source as an expression: shared pieces by name, the rest as it is."""
    runs = sorted(((text.split("\n\n"), name) for text, name in shared.items()), key=lambda r: -len(r[0]))
    said: list[str] = []
    own: list[str] = []
    begun = False  # whether anything stands before
    i = 0
    while i < len(pieces):
        run, name = next(((r, n) for r, n in runs if pieces[i : i + len(r)] == r), ([], ""))
        if not run:
            own.append(pieces[i])
            i += 1
            continue
        if own:
            said.append(_quoted(("\n\n" if begun else "") + "\n\n".join(own)))
            own, begun = [], True
        said.append(('"\\n\\n" + ' if begun else "") + name)
        begun = True
        i += len(run)
    if own:
        said.append(_quoted(("\n\n" if begun else "") + "\n\n".join(own)))
    return " + ".join(said)


def _quoted(text: str) -> str:
    return f'r"""{text}"""'
