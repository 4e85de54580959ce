"""Build the pages as a site in both languages, and check that no link is dead.

What is built stands in results/site and needs neither a server nor a network.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from pitb import arguments as command_line
from pitb.docs import site
from pitb.errors import PitbError, run_main

ROOT = Path(__file__).resolve().parent.parent
CONFIGURATIONS = ("mkdocs.yml", "mkdocs.zh.yml")
EXAMPLES = """  python scripts/build_site.py
  python -m http.server --directory results/site"""


def main() -> int:
    command_line.parser(__doc__, EXAMPLES).parse_args()
    import mmdr

    built = ROOT / "results/site"
    site.stage(ROOT, ROOT / "results/site-pages", lambda graph: mmdr.render(graph).svg())
    shutil.rmtree(built, ignore_errors=True)
    for configuration in CONFIGURATIONS:
        command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
        done = subprocess.run(
            [*command, "--config-file", str(ROOT / configuration)],
            cwd=ROOT,
            env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
            check=False,
        )
        if done.returncode != 0:
            raise PitbError(f"mkdocs refuses the pages of {configuration}, for what it says above")
    site.inline_search(built)
    (built / "zh/404.html").unlink(missing_ok=True)  # a server shows the first one alone
    wrong = list(site.check(built))
    for sentence in wrong:
        print(sentence)
    pages = len(list(built.rglob("*.html")))
    where = os.path.relpath(built / "index.html")
    print(f"{pages} pages, {len(wrong)} dead links or loads from elsewhere: {where}")
    return int(bool(wrong))


if __name__ == "__main__":
    run_main(main)
