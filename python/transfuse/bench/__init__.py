"""Side by side with PyTorch: `transfuse bench` measures, `transfuse report` shows."""


def main(arguments: list[str]) -> int:
    """`transfuse bench …`"""
    if any(word.split("=")[0] == "--models" for word in arguments):
        from .networks import main as run
    else:
        from .driver import main as run
    return run(arguments)


def report(arguments: list[str]) -> int:
    """`transfuse report …`: one HTML page from the JSON of a run."""
    from .page import main as write

    return write(arguments)
