"""Find a Chromium for the tests of the report, or install one where that takes one command.

Needs nothing but the standard library. Prints the browser's path; exit code 2 where there is none.
"""

import argparse
import os
import shutil
import subprocess
import sys

NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "microsoft-edge",
)
APPLICATIONS = (
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
)
PACKAGES = ("chromium", "fonts-dejavu-core", "fonts-noto-cjk")
HINT = (
    "no Chromium was found; install one (on Debian: apt-get install {}; on macOS: brew install "
    "--cask chromium), or name it with the environment variable CHROME".format(" ".join(PACKAGES))
)


def find():
    """The path of a Chromium, Chrome or Edge on this machine; None where there is none."""
    named = os.environ.get("CHROME")
    if named:
        return shutil.which(named)
    found = [shutil.which(name) for name in NAMES] + list(APPLICATIONS)
    return next((path for path in found if path and os.access(path, os.X_OK)), None)


def install():
    """Install Debian's packages, as root alone."""
    quiet = {"stdout": subprocess.DEVNULL, "check": True}
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    subprocess.run(["apt-get", "update"], env=environment, **quiet)
    command = ["apt-get", "install", "-y", "--no-install-recommends", *PACKAGES]
    subprocess.run(command, env=environment, **quiet)


EXAMPLES = """examples:
  python3 scripts/install_browser.py
  CHROME=/opt/chromium/chrome python3 scripts/install_browser.py"""


def main():
    argparse.ArgumentParser(
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ).parse_args()
    if find() is None and not os.environ.get("CHROME"):
        is_root = hasattr(os, "geteuid") and os.geteuid() == 0
        if shutil.which("apt-get") and is_root:
            try:
                install()
            except (OSError, subprocess.CalledProcessError) as error:
                print(f"error: Chromium could not be installed: {error}", file=sys.stderr)
                return 2
    path = find()
    if path is None:
        print(f"error: {HINT}", file=sys.stderr)
        return 2
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
