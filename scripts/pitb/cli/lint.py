"""Find burn configurations in Rust sources that leave a default unstated where PyTorch's differs.

A comment `// pitb: allow(epsilon)` on a line of the configuration or the line before silences a
field, `// pitb: allow` all of them, `// pitb: allow-file(clip)` a field in the whole file.
Exit code 0 where nothing is found, 1 where something is, 2 where a file could not be read or
parsed: that is said, and the rest is looked at.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from pitb.errors import EXIT_ERROR, PitbError

if TYPE_CHECKING:
    from pitb.lint.rules import Finding

HELP = "find burn configurations that leave a default unstated where PyTorch's differs"
EXAMPLES = """  pitb lint src
  pitb lint src/train.rs src/model.rs --json
  pitb lint . --github --skip-tests"""
SKIPPED = ("target", "node_modules")
"""Folders that hold what was built, or is not one's own."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("paths", nargs="+", type=Path, help="Rust files, or folders of them")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--json", action="store_true", help="print JSON")
    how.add_argument("--github", action="store_true", help="print annotations for GitHub Actions")
    parser.add_argument(
        "--skip-tests", action="store_true", help="leave out what #[test] or #[cfg(test)] marks"
    )


def run(arguments: argparse.Namespace) -> int:
    """Look at all files, and print what is found."""
    from pitb.files import read_text
    from pitb.lint import rules, sources

    found: list[Finding] = []
    errors: list[str] = []
    files = list(dict.fromkeys(file for path in arguments.paths for file in _files(path)))
    for file in files:
        try:
            source = sources.read(read_text(file), str(file), strict=False)
            if source.error:
                errors.append(f"{source.error}; the rest of the file was looked at")
            found += [f for f in rules.check(source) if not (f.test and arguments.skip_tests)]
        except PitbError as error:
            errors.append(str(error))
    if arguments.json:
        said = {"findings": [asdict(item) for item in found], "errors": errors}
        print(json.dumps(said | {"files": len(files)}, indent=2))
    elif arguments.github:
        for item in found:
            print(annotation(item))
    else:
        _print(found, len(files))
    for text in errors:
        print(f"error: {text}", file=sys.stderr)
    return EXIT_ERROR if errors else int(bool(found))


def _files(path: Path) -> list[Path]:
    """The Rust files of a folder, or the one that is named."""
    if not path.is_dir():
        return [path]
    found = [
        file
        for file in sorted(path.rglob("*.rs"))
        if not any(
            part.startswith(".") or part in SKIPPED for part in file.relative_to(path).parts[:-1]
        )
        and file.is_file()
    ]
    if not found:
        raise PitbError(f"there is no Rust file in {path}")
    return found


def _print(found: "Sequence[Finding]", files: int) -> None:
    for item in found:
        test = " (test code)" if item.test else ""
        print(f"{item.file}:{item.line}:{item.column}: {item.message}{test}")
    many = "" if len(found) == 1 else "s"
    print(f"{files} file{'' if files == 1 else 's'}, {len(found)} finding{many}")


def annotation(item: "Finding") -> str:
    """``::warning file=src/a.rs,line=3,...::message``, escaped as GitHub wants it."""

    def plain(text: str) -> str:
        return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

    def value(text: object) -> str:
        return plain(str(text)).replace(":", "%3A").replace(",", "%2C")

    title = value(f"{item.configuration} {item.field}")
    where = f"file={value(item.file)},line={item.line},col={item.column},title={title}"
    return f"::warning {where}::{plain(item.message)}"
