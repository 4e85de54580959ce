"""What the command lines of the scripts have in common."""

import argparse


def count(text: str) -> int:
    """A number of 1 or more from the command line."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number of 1 or more")
    return value


def parser(doc: str | None, examples: str) -> argparse.ArgumentParser:
    """A parser whose ``--help`` ends with examples, one or more lines of them."""
    return argparse.ArgumentParser(
        description=doc,
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
