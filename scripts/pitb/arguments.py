"""What the command lines of the scripts have in common."""

import argparse


def parser(doc: str | None, examples: str) -> argparse.ArgumentParser:
    """A parser whose ``--help`` ends with examples, one or more lines of them."""
    return argparse.ArgumentParser(
        description=doc,
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
