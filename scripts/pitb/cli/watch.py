"""Run the same experiments on other versions of burn and of PyTorch, and say what changed.

Each version of burn is built in a workspace of its own, each version of torch installed in an
environment of its own, below --out. Compared with what the project has reproduced are the
defaults, the equations (does the description of the library still explain its traces, and if not,
which would), and every figure that the pages print. What no longer compiles is a row.

Exit code 0 where nothing differs, 1 where something does, 2 where it could not be done.
"""

import argparse
import json
import math
import sys
from pathlib import Path

from pitb.arguments import count
from pitb.errors import EXIT_ERROR, PitbError
from pitb.watch.folders import KEEP_GB, NEEDED_GB

HELP = "say which defaults, equations and figures another version changes"
EXAMPLES = """  pitb watch --list
  pitb watch --burn 0.21.0 --burn 0.23.0-pre.1
  pitb watch --torch 2.14.1 --json
  pitb watch --burn 0.21.0 --jobs 1 --keep-free 15
  pitb watch --report
  pitb watch --clean --burn 0.21.0"""


def gigabytes(text: str) -> float:
    """A number of 0 or more from the command line."""
    value = float(text)
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a number of 0 or more")
    return value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    needed = f"{NEEDED_GB['burn']:g} GB of disk and minutes"
    parser.add_argument(
        "--burn", action="append", default=[], metavar="VERSION", help=f"build it: {needed}"
    )
    needed = f"{NEEDED_GB['torch']:g} GB of disk and a minute"
    parser.add_argument(
        "--torch", action="append", default=[], metavar="VERSION", help=f"install it: {needed}"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--list", action="store_true", help="the versions that can be had")
    what.add_argument(
        "--report", action="store_true", help="the table of what was watched, making nothing"
    )
    what.add_argument(
        "--clean",
        action="store_true",
        help="delete what is large of these versions, or of all; what was found stays",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("results/watch"),
        help="folder of the versions (default: results/watch)",
    )
    parser.add_argument(
        "--results",
        type=Path,
        default=Path("results"),
        help="the project's results, which make has made (default: results)",
    )
    parser.add_argument(
        "--config", type=Path, nargs="+", default=[], metavar="FILE", help="other YAML files"
    )
    parser.add_argument("--jobs", type=count, default=0, help="processes of a build (default: all)")
    parser.add_argument(
        "--keep-free",
        type=gigabytes,
        default=KEEP_GB,
        metavar="GB",
        help=f"of disk that stays free (default: {KEEP_GB:g})",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of Markdown")
    parser.add_argument(
        "--language", choices=("en", "zh"), default="en", help="of the text (default: en)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Watch, and print the table."""
    from pitb.breadth.sources import ROOT
    from pitb.watch import changes, folders, versions, watching

    wanted = [versions.wanted("burn", version) for version in arguments.burn]
    wanted += [versions.wanted("torch", version) for version in arguments.torch]
    wanted = list(dict.fromkeys(wanted))
    if arguments.list:
        return _list(arguments)
    if arguments.clean:
        freed = folders.clean(arguments.out, wanted or folders.made(arguments.out))
        print(f"{freed / 1e6:.0f} MB freed in {arguments.out}")
        return 0
    failed: list[str] = []
    if not arguments.report:
        if not wanted:
            raise PitbError("name a version, as in --burn 0.21.0; --list names those there are")
        root, out = ROOT.absolute(), arguments.out
        setup = watching.prepare(
            root, arguments.results, out, arguments.config, arguments.jobs, arguments.keep_free
        )
        failed = watching.watch_all(setup, wanted)
    found: list[changes.Facts] = []
    if not wanted or len(failed) < len(wanted):
        found, unread = watching.collect(arguments.out)
        failed += unread
    for sentence in failed:
        print(f"error: {sentence}", file=sys.stderr)
    if not found:
        return EXIT_ERROR
    changes.write(found, arguments.out)
    shown = [facts for facts in found if not wanted or facts.name in {v.name for v in wanted}]
    if arguments.json:
        print(json.dumps(changes.as_json(shown), indent=2, ensure_ascii=False))
    else:
        print(changes.markdown(shown, arguments.language), end="")
    return EXIT_ERROR if failed else int(watching.anything_changed(shown))


def _list(arguments: argparse.Namespace) -> int:
    from pitb.watch import watching

    found, failed = watching.known(arguments.out)
    if arguments.json:
        print(json.dumps({"versions": found, "errors": failed}, indent=2, ensure_ascii=False))
    else:
        for entry in found:
            marks = [word for word in ("own", "watched") if entry[word]]
            said = f"  ({', '.join(_MARKS[word] for word in marks)})" if marks else ""
            print(f"{entry['library']} {entry['version']}{said}")
    for sentence in failed:
        print(f"error: {sentence}", file=sys.stderr)
    return EXIT_ERROR if failed else 0


_MARKS = {"own": "the project's own", "watched": "watched"}
