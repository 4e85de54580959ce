"""Run Snakemake's linter; it may complain of nothing but what is excepted here, with the reason."""

import re
import subprocess
import sys

from pitb import arguments as command_line

EXAMPLES = "  python scripts/check_lint.py"
EXCEPTED = {
    "Specify a conda environment or container for each rule.": (
        "the one environment of all rules is .venv, pinned with hashes by requirements.lock"
    )
}


def main() -> int:
    command_line.parser(__doc__, EXAMPLES).parse_args()
    command = [sys.executable, "-m", "snakemake", "--lint"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    printed = ended.stdout + ended.stderr
    titles = re.findall(r"^    \* (.*):$", printed, re.MULTILINE)
    # It ends with an error where it complains; anything else went wrong before it could.
    if (ended.returncode != 0) != bool(titles):
        print(printed, file=sys.stderr)
        return 1
    complaints = [title for title in titles if title not in EXCEPTED]
    if complaints:
        print(printed, file=sys.stderr)
    print(
        f"snakemake --lint: {len(complaints)} complaints, {len(titles) - len(complaints)} excepted"
    )
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
