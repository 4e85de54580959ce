"""Diagnose the recorded trainings of the worked example, port the optimizer, write what is said.

Fails unless the diagnosis of the naive port says what to change, that of the fixed one that nothing
needs to change, and the port writes out all that was to be changed.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from pitb import arguments as command_line
from pitb.errors import PitbError, run_main
from pitb.files import write_text

EXAMPLES = """  python scripts/diagnose_digits.py results/digits/traces/pytorch \\
      results/digits/traces/burn-naive results/digits/traces/burn-fixed \\
      --script examples/digits/digits.py --out results/digits/diagnosis.md"""

NOTHING = "nothing needs to change"


def called(*arguments: str | Path) -> str:
    """What a command of pitb prints."""
    command = [sys.executable, "-m", "pitb", *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise PitbError(f"pitb {' '.join(map(str, arguments))} failed: {ended.stderr.strip()}")
    return ended.stdout


def diagnosed(first: Path, second: Path) -> dict[str, Any]:
    """Two traces side by side."""
    found: dict[str, Any] = json.loads(called("diagnose", first, second, "--json"))
    return found


def said(diagnosis: dict[str, Any]) -> str:
    """The sentence on a trace, without what roundings leave, which differs between processors."""
    return str(diagnosis["summary"]).partition("; residual")[0]


def ported(script: Path) -> list[str]:
    """The lines of a ported optimizer that leave burn's defaults."""
    return [line.strip() for line in called("port", script).splitlines() if "default:" in line]


def changed(naive: dict[str, Any]) -> list[str]:
    """The options in which the two traces were found to differ."""
    first, second = (item["groups"][0]["explanations"][0] for item in naive["diagnoses"])
    return [
        name
        for name, (low, high) in first["intervals"].items()
        if name in second["intervals"]
        and (second["intervals"][name][1] < low or second["intervals"][name][0] > high)
    ]


def main() -> None:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("pytorch", type=Path)
    parser.add_argument("naive", type=Path)
    parser.add_argument("fixed", type=Path)
    parser.add_argument("--script", type=Path, required=True, help="the PyTorch training")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    naive = diagnosed(arguments.pytorch, arguments.naive)
    fixed = diagnosed(arguments.pytorch, arguments.fixed)
    if naive["change"].startswith(NOTHING):
        raise PitbError(f"{arguments.naive} should need a change, and none was found")
    if not fixed["change"].startswith(NOTHING):
        raise PitbError(f"{arguments.fixed} should need no change; found: {fixed['change']}")
    fix = ported(arguments.script)
    if len(fix) != len(changed(naive)):
        raise PitbError(
            f"pitb port changes {len(fix)} defaults, and the traces differ in "
            f"{', '.join(changed(naive))}"
        )
    lines = ["```text", "$ pitb diagnose pytorch burn-naive"]
    for name, diagnosis in zip(("pytorch", "burn-naive"), naive["diagnoses"], strict=True):
        lines.append(f"{name}: {said(diagnosis)}")
    lines += [naive["change"], "", "$ pitb port digits.py", *fix, ""]
    lines += ["$ pitb diagnose pytorch burn-fixed", fixed["change"], "```"]
    write_text(arguments.out, "\n".join(lines) + "\n")


if __name__ == "__main__":
    run_main(main)
