"""The ``pitb`` command: one module of this package for each of its subcommands.

A subcommand's module has ``HELP`` (one line), ``EXAMPLES``, ``add_arguments(parser)`` and
``run(arguments)``, which gives the exit code: 0 for yes, 1 for no, 2 for what could not be done.
Nothing heavy is imported before ``run``.
"""

import argparse
import importlib

import pitb
from pitb.errors import run_main

COMMANDS = (
    "port",
    "lint",
    "explain",
    "diagnose",
    "compare",
    "docs",
    "verify",
    "diff",
    "watch",
    "sweep",
)

DESCRIPTION = """PyTorch into burn: why two trainings differ, and how to write the burn side so that
they agree."""


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    found = argparse.ArgumentParser(
        prog="pitb",
        description=DESCRIPTION,
        epilog="exit codes: 0 yes, 1 no, 2 it could not be done; pitb COMMAND --help has examples",
    )
    found.add_argument("--version", action="version", version=f"pitb {pitb.__version__}")
    commands = found.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in COMMANDS:
        module = importlib.import_module(f"pitb.cli.{name}")
        command = commands.add_parser(
            name,
            help=module.HELP,
            description=module.__doc__,
            epilog=f"examples:\n{module.EXAMPLES}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return found


def main() -> None:
    """Run the command, and exit with its code."""

    def run() -> int:
        arguments = parser().parse_args()
        code: int = arguments.run(arguments)
        return code

    run_main(run)
