"""What differs between the kernels that write.cpp wrote at two commits; PTX decides where texts differ. See tools/kernels.sh."""

import argparse
import difflib
import re
import subprocess
import sys
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ARCHITECTURES = (90, 80)
MOST_LINES = 40  # of a difference that is shown
MOST_SHOWN = 12  # differences
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|\S")


@dataclass(frozen=True)
class Launch:
    text: str  # its name
    entry: str
    rest: str  # how it is launched

    @property
    def how(self) -> str:
        return self.rest.partition(" arguments ")[0]

    @property
    def options(self) -> str:
        return " ".join(word for word in self.rest.split() if word.startswith("-"))


@dataclass
class Change:
    """A text in place of another."""

    before: Launch
    after: Launch
    plans: list[str] = field(default_factory=list)
    kind: str = ""


def read(file: Path) -> dict[str, list]:
    plans: dict[str, list] = {}
    for line in file.read_text().splitlines():
        if line.startswith("["):
            plan = plans.setdefault(line[1:-1], [])
        elif line.startswith(("workspace", "not possible")):
            plan.append(line)
        else:
            plan.append(Launch(*line.split(" ", 2)))
    return plans


def tokens(text: str) -> list[str]:
    return TOKEN.findall(COMMENT.sub(" ", text))


def kind_of(before: str, after: str) -> str:
    """What two different texts differ in: comments, names (one for one), code."""
    a, b = tokens(before), tokens(after)
    if a == b:
        return "comments"
    if len(a) != len(b):
        return "code"
    there, back = {}, {}
    for x, y in zip(a, b):
        named = x[0].isalpha() or x[0] == "_"
        if not named and x != y:
            return "code"
        if named and (there.setdefault(x, y) != y or back.setdefault(y, x) != x):
            return "code"
    return "names"


def same_ptx(before: str, after: str) -> bool:
    """But for constants that no instruction reads, and for names: those of kernels and of memory count by where they first stand."""

    def plain(ptx: str) -> str:
        ptx = "\n".join(line for line in ptx.splitlines() if not line.startswith("//") and ".loc" not in line)
        for line, name in re.findall(r"^(\.global [^\n\[]* (\w+)(?: = \w+)?;\n)", ptx, re.MULTILINE):
            if len(re.findall(rf"(?<![\w$]){re.escape(name)}(?![\w$])", ptx)) == 1:
                ptx = ptx.replace(line, "", 1)
        names = re.findall(r"\.(?:entry|func|shared|global|const)[^\n;({=]*?([A-Za-z_$][\w$]*)\s*[(\[;={]", ptx)
        for number, name in enumerate(dict.fromkeys(names)):
            ptx = re.sub(rf"(?<![\w$]){re.escape(name)}(?![A-Za-z0-9$])", f"name{number}", ptx)
        return ptx

    if before.startswith("does not compile") or after.startswith("does not compile"):
        return False
    return before == after or plain(before) == plain(after)


class Compilations:
    """PTX of texts, several at a time, kept for the next time."""

    def __init__(self, writer: str, python: str, jobs: int, kept: Path):
        self.writer, self.jobs, self.kept = writer, jobs, kept
        self.nvrtc = nvrtc_of(python)

    def make(self, texts: set[tuple[Path, str]], arch: int) -> None:
        folder = self.kept / str(arch)
        missing = [(file, options) for file, options in sorted(texts) if not self.file(file, options, arch).exists()]

        def run(share):
            lines = [f"{file} {self.file(file, options, arch).stem} {options}\n" for file, options in share]
            command = [self.writer, "ptx", str(folder), str(arch)]
            subprocess.run(command, input="".join(lines), text=True, check=True, env=self.nvrtc)

        with ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(run, [missing[i :: self.jobs] for i in range(min(self.jobs, len(missing)))]))

    def file(self, text: Path, options: str, arch: int) -> Path:
        return self.kept / str(arch) / f"{text.stem}{re.sub(r'[^A-Za-z0-9]+', '-', options)}.ptx"

    def of(self, text: Path, options: str, arch: int) -> str:
        return self.file(text, options, arch).read_text()


def nvrtc_of(python: str) -> dict[str, str]:
    """The environment in which the run-time compiler is found: PyTorch's wheels bring one."""
    import os

    ask = "import nvidia, glob; print(*(f for p in nvidia.__path__ for f in glob.glob(p + '/*/lib/libnvrtc.so.*')))"
    found = subprocess.run([python, "-c", ask], capture_output=True, text=True).stdout.split()
    found = [file for file in found if "builtins" not in file]
    return {**os.environ, **({"TRANSFUSE_NVRTC": found[0]} if found and "TRANSFUSE_NVRTC" not in os.environ else {})}


def pairs(before: list[Launch], after: list[Launch]):
    """Launches that stand for one another, None where there is none."""
    if len(before) == len(after):
        yield from zip(before, after)
        return
    matcher = difflib.SequenceMatcher(a=[x.text for x in before], b=[x.text for x in after], autojunk=False)
    for _, i, k, j, m in matcher.get_opcodes():
        a, b = before[i:k], after[j:m]
        width = max(len(a), len(b))
        yield from zip(a + [None] * (width - len(a)), b + [None] * (width - len(b)))


def some(names: list[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


class Comparison:
    def __init__(self, base: Path, head: Path, arch: int):
        self.base, self.head, self.arch = base, head, arch
        old, new = (read(folder / f"launches-{arch}.txt") for folder in (base, head))
        self.plans = len(new)
        self.texts = len({launch.text for plan in new.values() for launch in plan if isinstance(launch, Launch)})
        self.gone, self.come = [p for p in old if p not in new], [p for p in new if p not in old]
        self.changes: dict[tuple, Change] = {}
        self.others: dict[str, list[str]] = defaultdict(list)  # what else is different: in which plans
        self.touched = set()
        for plan in (p for p in old if p in new and old[p] != new[p]):
            self.touched.add(plan)
            self._compare(plan, old[plan], new[plan])

    def _compare(self, plan, old, new):
        words = [[line for line in side if isinstance(line, str)] for side in (old, new)]
        if words[0] != words[1]:
            self.others[f"{'; '.join(words[0])[:200]} -> {'; '.join(words[1])[:200]}"].append(plan)
        for a, b in pairs(*([line for line in side if isinstance(line, Launch)] for side in (old, new))):
            if a is None or b is None:
                self.others[f"{'more' if a is None else 'fewer'} launches: {(a or b).entry}"].append(plan)
                continue
            if a.text != b.text or a.options != b.options:
                self.changes.setdefault((a.text, b.text, b.options), Change(a, b)).plans.append(plan)
            if a.how != b.how:
                self.others[f"{b.entry} is launched otherwise: {a.how} -> {b.how}"].append(plan)
            elif a.rest != b.rest:
                self.others[f"{b.entry} has other arguments"].append(plan)

    def text(self, launch: Launch, folder: Path) -> Path:
        return folder / "texts" / f"{launch.text}.cu"

    def judge(self, compilations: Compilations, most: int) -> None:
        """Says of every change what kind it is; PTX of as many as are asked for, names first."""
        for change in self.changes.values():
            before, after = self.text(change.before, self.base), self.text(change.after, self.head)
            change.kind = kind_of(before.read_text(), after.read_text())
            if change.kind == "comments" and change.before.options != change.after.options:
                change.kind = "options"
        asked = [c for c in self.changes.values() if c.kind in ("names", "code", "options")]
        # Of every kind of kernel a few come first.
        seen: Counter = Counter()
        rank = {}
        for change in asked:
            kernel = re.sub(r"\d+$", "", change.after.entry)
            rank[id(change)] = (seen[change.kind, kernel], change.kind != "names")
            seen[change.kind, kernel] += 1
        asked = sorted(asked, key=lambda c: rank[id(c)])[:most]
        sides = [(c, self.text(c.before, self.base), self.text(c.after, self.head)) for c in asked]
        compilations.make(
            {(a, c.before.options) for c, a, _ in sides} | {(b, c.after.options) for c, _, b in sides}, self.arch
        )
        for change, a, b in sides:
            same = same_ptx(
                compilations.of(a, change.before.options, self.arch),
                compilations.of(b, change.after.options, self.arch),
            )
            change.kind += ", PTX the same" if same else ", PTX differs"

    def harmless(self) -> bool:
        """Whether no kernel does anything else, as far as it was looked at."""
        quiet = all(c.kind == "comments" or c.kind.endswith("the same") for c in self.changes.values())
        return quiet and not (self.others or self.gone or self.come)

    def tell(self, shown: set) -> None:
        print(f"sm_{self.arch}: {self.plans} plans, {self.texts} texts: ", end="")
        if not (self.changes or self.others or self.gone or self.come):
            print("no text changed")
            return
        print(f"{len(self.changes)} texts changed, in {len(self.touched)} plans")
        for kind, count in Counter(c.kind for c in self.changes.values()).most_common():
            print(f"    {count} in {kind}" + ("" if "," in kind or kind == "comments" else ", PTX not looked at"))
        for what, plans in (("no longer there", self.gone), ("new", self.come)):
            if plans:
                print(f"    {len(plans)} plans are {what}: {some(plans)}")
        for what, plans in sorted(self.others.items(), key=lambda item: -len(item[1]))[:MOST_SHOWN]:
            print(f"    {what} ({some(plans)})")
        if len(self.others) > MOST_SHOWN:
            print(f"    and {len(self.others) - MOST_SHOWN} other ways to be launched")
        self._show(shown)

    def _show(self, shown: set) -> None:
        """Each difference once, however many texts have it; those that change PTX first."""
        order = sorted(
            self.changes.values(), key=lambda c: ("the same" in c.kind, "not" in c.kind, c.kind == "comments")
        )
        groups: dict[tuple, list[Change]] = defaultdict(list)
        for change in order:
            a, b = (
                self.text(launch, folder).read_text().splitlines()
                for launch, folder in ((change.before, self.base), (change.after, self.head))
            )
            lines = list(difflib.unified_diff(a, b, lineterm="", n=1))[2:]
            groups[tuple(line for line in lines if line[0] in "+-")].append(change)
            change.lines = lines
        fresh = [key for key in groups if key not in shown]
        for key in fresh[:MOST_SHOWN]:
            shown.add(key)
            change, alike = groups[key][0], groups[key]
            print(f"\n  {change.after.entry} of {some(change.plans)}: {change.kind}", end="")
            print(f"; {len(alike) - 1} more texts alike" if len(alike) > 1 else "")
            for line in change.lines[:MOST_LINES]:
                print(f"    {line[:200]}")
            if len(change.lines) > MOST_LINES:
                files = self.text(change.before, self.base), self.text(change.after, self.head)
                print(f"    … {len(change.lines) - MOST_LINES} lines more: diff {files[0]} {files[1]}")
        if len(fresh) > MOST_SHOWN:
            print(f"\n  {len(fresh) - MOST_SHOWN} other differences are not shown")


def compare_graphs(base: Path, head: Path) -> bool:
    """Whether capturing gives the same graphs."""
    old, new = ({f.name: f.read_text() for f in (folder / "graphs").iterdir()} for folder in (base, head))
    changed = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    for name in changed[:MOST_SHOWN]:
        a, b = old.get(name, "").splitlines(), new.get(name, "").splitlines()
        print(f"captured graph {name}:")
        for line in list(difflib.unified_diff(a, b, lineterm="", n=0))[2:MOST_LINES]:
            print(f"    {line[:200]}")
    if len(changed) > MOST_SHOWN:
        print(f"{len(changed) - MOST_SHOWN} other captured graphs changed")
    return not changed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", type=Path)
    parser.add_argument("head", type=Path)
    parser.add_argument("--writer", required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--most", type=int, default=60)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--kept", type=Path, required=True)
    given = parser.parse_args()
    harmless = compare_graphs(given.base, given.head)
    compilations = Compilations(given.writer, given.python, given.jobs, given.kept)
    shown: set = set()
    for arch in ARCHITECTURES:
        comparison = Comparison(given.base, given.head, arch)
        comparison.judge(compilations, given.most)
        comparison.tell(shown)
        harmless &= comparison.harmless()
    return 0 if harmless else 1


if __name__ == "__main__":
    sys.exit(main())
