"""Writes examples/emitted anew: the seed models as `transfuse emit` turns them out. Rows may be named; default: A B C D."""

import sys
from pathlib import Path

from transfuse import emit

root = Path(__file__).resolve().parent.parent
for row in sys.argv[1:] or ("A", "B", "C", "D"):
    file = emit.emit(root / "bench" / "models" / f"{row}.py")
    emit.write(file.text, root / "examples" / "emitted" / f"{row}.py")
    print(f"examples/emitted/{row}.py: {file.text.count(chr(10))} lines", flush=True)
