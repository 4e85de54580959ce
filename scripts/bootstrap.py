"""Set the project up: check Python and cargo, then fill .venv from requirements.lock.

With --slurm it fills .venv-slurm, from the same and from requirements-slurm.lock.

Needs nothing but the standard library, and says in one sentence what is missing before anything
is downloaded. Runs on old versions of Python far enough to say that they are too old.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile

PYTHON = (3, 11)
CARGO = (1, 95)
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
LOCK = os.path.join(ROOT, "requirements.lock")
# Apart, since the plugin for Slurm slows every call of Snakemake.
SLURM_VENV = os.path.join(ROOT, ".venv-slurm")
SLURM_LOCK = os.path.join(ROOT, "requirements-slurm.lock")
PROJECT = os.path.join(ROOT, "pyproject.toml")


class SetupError(Exception):
    """One sentence: what is missing and what would be right."""


def text_of(version):
    return ".".join(map(str, version))


def check_python():
    if sys.version_info[:2] < PYTHON:
        raise SetupError(
            "Python {} or newer is needed, and {} is {}; name another with make PYTHON=...".format(
                text_of(PYTHON), sys.executable, text_of(sys.version_info[:2])
            )
        )


def check_cargo():
    cargo = shutil.which("cargo")
    if cargo is None:
        raise SetupError(
            "cargo {} or newer is needed and none is on the PATH; install Rust with rustup".format(
                text_of(CARGO)
            )
        )
    try:
        ended = subprocess.run([cargo, "--version"], stdout=subprocess.PIPE, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SetupError("{} does not run: {}".format(cargo, error))
    printed = ended.stdout.decode("utf-8", "replace").strip()
    match = re.match(r"cargo (\d+)\.(\d+)", printed)
    if match is None or (int(match.group(1)), int(match.group(2))) < CARGO:
        raise SetupError(
            "cargo {} or newer is needed, and {} is {!r}; update it with rustup update".format(
                text_of(CARGO), cargo, printed
            )
        )


def bin_path(venv, name):
    if os.name == "nt":
        return os.path.join(venv, "Scripts", name + ".exe")
    return os.path.join(venv, "bin", name)


def stamp_path(venv):
    return os.path.join(venv, "requirements.sha256")


def lock_hash(locks):
    """Of what .venv is filled from and by: another lock or another Python means another .venv."""
    digest = hashlib.sha256(sys.version.encode())
    for path in (*locks, PROJECT):
        with open(path, "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()


def is_filled(venv, locks):
    try:
        with open(stamp_path(venv)) as file:
            return file.read() == lock_hash(locks) and os.path.exists(bin_path(venv, "python"))
    except OSError:
        return False


def uv_requirement():
    """The lines of requirements.lock that pin uv, hashes and all."""
    with open(LOCK, encoding="utf-8") as file:
        match = re.search(r"^uv==.*(?:\n    .*)*", file.read(), re.MULTILINE)
    if match is None:
        raise SetupError("requirements.lock pins no uv; restore it with git checkout")
    return match.group(0)


def run(*command):
    try:
        subprocess.run(command, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SetupError("the set-up stopped: {}".format(error))


def fill(venv, locks):
    if is_filled(venv, locks):
        return
    name = os.path.basename(venv)
    print("Setting up {} (once; some gigabytes on Linux)".format(name), flush=True)
    if os.path.isfile(stamp_path(venv)):
        os.remove(stamp_path(venv))
    try:
        import ensurepip  # noqa: F401
    except ImportError:
        raise SetupError(
            "{} has no ensurepip; install your system's package for it, "
            "such as python3-venv".format(sys.executable)
        )
    python = bin_path(venv, "python")
    run(sys.executable, "-m", "venv", "--clear", venv)
    with tempfile.TemporaryDirectory() as folder:
        requirement = os.path.join(folder, "uv.txt")
        with open(requirement, "w", encoding="utf-8") as file:
            file.write(uv_requirement())
        pip = [python, "-m", "pip", "install", "--quiet", "--require-hashes"]
        run(*pip, "-r", requirement)
    # Compiled once here, or every process would compile what it imports where bytecode is not kept.
    uv = [bin_path(venv, "uv"), "pip", "install", "--require-hashes", "--compile-bytecode"]
    uv += ["--python", python]
    for lock in locks:
        uv += ["-r", lock]
    run(*uv)
    # The command `pitb` itself, from this folder; what it needs is there.
    uv = [bin_path(venv, "uv"), "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    run(*uv, "--python", python, "--editable", ROOT)
    with open(stamp_path(venv), "w") as file:
        file.write(lock_hash(locks))


def check_path(venv):
    """A job's script names its Python, and Snakemake writes it there without quotes."""
    found = re.search("[\\s\"'$`\\\\&;|<>()*?\\[\\]{}#~!]", venv)
    if found:
        raise SetupError(
            "jobs of Slurm cannot start a Python in {}, as its path holds {!r}, which Snakemake "
            "does not quote; move this folder to a path without it".format(venv, found.group(0))
        )


EXAMPLES = """examples:
  python3 scripts/bootstrap.py
  python3 scripts/bootstrap.py --slurm
  python3 scripts/bootstrap.py --check cargo"""


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--check", choices=["python", "cargo"], help="only check for this one")
    parser.add_argument("--slurm", action="store_true", help="fill .venv-slurm instead of .venv")
    arguments = parser.parse_args()
    try:
        if arguments.check != "cargo":
            check_python()
        if arguments.check != "python":
            check_cargo()
        if arguments.check is None and arguments.slurm:
            check_path(SLURM_VENV)
            fill(SLURM_VENV, [LOCK, SLURM_LOCK])
        elif arguments.check is None:
            fill(VENV, [LOCK])
    except SetupError as error:
        print("error: {}".format(error), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
