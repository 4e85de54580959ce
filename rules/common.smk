# Takes: the configuration. Gives: the batches, and the helper functions of all rules.
import json
import os
import re
import shlex
import subprocess
import sys
import threading
from pathlib import Path

# The project may be run from another folder: its own files are found from the Snakefile.
ROOT = Path(workflow.basedir)
if ROOT.resolve() == Path.cwd().resolve():
    ROOT = Path(".")
SCRIPTS = ROOT / "scripts"
sys.path.insert(0, str(SCRIPTS.resolve()))

from pitb import batches, cargo, errors, imports, programs, reported, running
from pitb.cargo import PROGRAMS
from pitb.config import load
from pitb.errors import PitbError
from pitb.pages import PAGES
from pitb.labels import SHEETS
from pitb.registry import optimizers
from pitb.stream import compiled
from pitb.results import (
    EXPLAINED,
    FINDINGS,
    comparison_path,
    explanation_path,
)

TARGET = ROOT / "target"
COMPARISON_LIBRARY = TARGET / "release" / compiled.LIBRARY.name


def config_files():
    """The project's configuration or the working folder's, then what --configfile adds."""
    here = Path("config/config.yaml")
    base = here if here.is_file() else ROOT / "config/config.yaml"
    added = [Path(path) for path in workflow.overwrite_configfiles]
    return [base, *(path for path in added if path.resolve() != base.resolve())]


def config_overrides():
    """What --config sets."""
    return dict(workflow.config_settings.config or {})


def end_with(error):
    """End the call with one sentence, before Snakemake adds to it."""
    print(f"error: {error}", file=sys.stderr)
    sys.stderr.flush()
    os._exit(2)


def read_config():
    """The checked configuration; a mistake in it ends the call with one sentence."""
    try:
        return load(config_files(), ROOT / "config/schema.json", config_overrides())
    except PitbError as error:
        end_with(error)


def script(name):
    """A script and every module that its result depends on; the script comes first."""
    path = SCRIPTS / name
    return [path, *(item for item in imports.dependencies(path) if item != path)]


def lazily(name):
    """The same, found only where a job needs it: most calls have no job of the breadth."""
    return lambda wildcards: script(name)


def at_each_attempt(amount):
    """So much memory or time, and as much again at each retry: too little is why jobs are killed."""
    return lambda wildcards, attempt: amount * attempt


def with_threads(base, each):
    """The same for jobs that start processes as they have threads: so much, and more for each."""
    return lambda wildcards, threads, attempt: (base + each * threads) * attempt


def breadth_files(scope):
    """All that the breadth makes, so that what was deleted is made again."""
    sheets = [
        f"{sheet}{suffix}" for sheet in SHEETS for suffix in (".md", ".zh.md", ".csv")
    ]
    rest = [
        "verdicts.csv",
        "mutants.csv",
        "rows.parquet",
        "summary.txt",
        "complaints.txt",
    ]
    rest += ["coverage.json", "findings.json", "reproductions/expected.json"]
    each = [
        path
        for key in OPTIMIZERS
        for path in (
            f"plans/{key}.json",
            *(f"traces/{key}/{side}" for side in ("pytorch", "burn", "reference")),
            *(
                f"judged/{key}/{name}"
                for name in (
                    "rows.parquet",
                    "outcomes.json",
                    "kills.json",
                    "papers.json",
                )
            ),
        )
    ]
    return [f"results/{scope}/{path}" for path in (*sheets, *rest, *each)]


def rust_sources():
    """What the build depends on; the two probes that it leaves out are inputs of their own rule."""
    left_out = {"noassign.rs", "must_use.rs"}
    sources = (
        path for path in ROOT.glob("crates/**/*.rs") if "tests" not in path.parts
    )
    return sorted(
        [
            *(path for path in sources if path.name not in left_out),
            *ROOT.glob("crates/*/Cargo.toml"),
            ROOT / "Cargo.toml",
            ROOT / "Cargo.lock",
            SCRIPTS / "pitb/optimizers.json",
        ]
    )


def comparison_sources():
    """What the library that compares large traces is built from."""
    folder = ROOT / "native/pitb-compare"
    return [
        *sorted(folder.glob("src/*.rs")),
        folder / "Cargo.toml",
        ROOT / "Cargo.lock",
    ]


def program(name):
    """A built burn program."""
    return TARGET / "release" / name


def results(paths):
    """Paths below the folder of results."""
    return [f"results/{path}" for path in sorted(paths)]


def print_summary():
    """The last word on the comparisons and on the ledger."""
    for path in map(Path, SUMMARIES):
        if path.is_file():
            print(path.read_text(encoding="utf-8").strip())


def failed_in(rule_name, logs):
    """Whether Snakemake's own log, a path or several, says that this rule failed."""
    paths = [logs] if isinstance(logs, str) else logs
    texts = (Path(path).read_text(encoding="utf-8") for path in paths)
    return any(
        re.search(rf"^Error in \w+ {rule_name}:", text, re.MULTILINE) for text in texts
    )


def shown(item):
    """What a rule makes for the report, with its place there; the captions stand in report/."""
    return report(
        f"results/{item.path}",
        caption=f"../report/{item.caption}.rst",
        category=item.category,
        subcategory=item.subcategory,
        labels={"entry 条目": item.label},
    )


def made(items):
    """Whether all is there that some items of the report are made of."""
    sources = [f"results/{path}" for item in items for path in item.sources]
    return all(Path(path).is_file() for path in sources)


def make_reported():
    """Make what a report shows, by a call of its own: --report itself runs nothing.

    It draws and writes what there is, and trains nothing.
    """
    wanted = [
        "results/comparisons.md",
        *RUN_FILES,
        *COMPARISONS,
        *LEDGER,
        *(path for paths in TABLE_FILES.values() for path in paths),
    ]
    missing = [path for path in wanted if not Path(path).is_file()]
    if missing:
        print(
            f"error: there is nothing to report yet, since {missing[0]} is missing; run make, or"
            " snakemake --cores all, before",
            file=sys.stderr,
        )
        sys.stderr.flush()
        os._exit(2)
    groups = [f"write_pages_{name.replace('-', '_')}" for name in PAGE_GROUPS]
    drawn = [f"draw_breadth_plots_{scope.replace('-', '_')}" for scope in SCOPES]
    allowed = ["reported", "record_versions", "copy_stylesheet", *groups, *drawn]
    allowed += ["draw_plots"] if CONFIG.pairs else []
    command = [sys.executable, "-m", "snakemake", "reported", "--cores", "all"]
    command += [
        "--snakefile",
        str(workflow.main_snakefile),
        "--allowed-rules",
        *allowed,
    ]
    if workflow.overwrite_configfiles:
        command += ["--configfile", *map(str, workflow.overwrite_configfiles)]
    if config_overrides():
        settings = config_overrides().items()
        command += [
            "--config",
            *(f"{key}={json.dumps(value)}" for key, value in settings),
        ]
    ended = subprocess.run(command, env={**os.environ, "PITB_SAY_SUMMARY_LATER": "1"})
    if ended.returncode != 0:
        os._exit(ended.returncode)


# Sweeps are expanded only where a target asks for them.
SWEPT = set()
SWEEP_NAME = "[A-Za-z0-9][A-Za-z0-9_-]*"


def write_sweep_plans():
    """Write the batches of the sweeps that this call asks for, which its jobs read."""
    if SWEPT:
        from pitb.sweeps import plan

        for name in sorted(SWEPT):
            try:
                plan.write(sweep_file(name), Path(f"results/sweeps/{name}"))
            except PitbError as error:
                print(f"error: {error}", file=sys.stderr)
                sys.exit(2)  # not at once: the folder is locked now


def sweep_file(name):
    """The working folder's sweep of that name, or else the project's."""
    here = Path(f"config/sweeps/{name}.yaml")
    return here if here.is_file() else ROOT / here


def sweep_names():
    """All sweeps of the working folder, or of the project where that has none."""
    here = Path("config/sweeps")
    folder = here if here.is_dir() else ROOT / here
    names = sorted(path.stem for path in folder.glob("*.yaml"))
    for name in names:
        if not re.fullmatch(SWEEP_NAME, name):
            sentence = f"{name!r} is not a name of letters, digits, - and _"
            end_with(PitbError(f"{folder / name}.yaml: {sentence}"))
    return names


def sweep_batches(name):
    """The batches of a sweep with their digests; a mistake in it ends the call with one sentence."""
    from pitb.sweeps import plan

    SWEPT.add(name)
    try:
        return plan.digests(sweep_file(name), Path(f"results/sweeps/{name}"))
    except PitbError as error:
        end_with(error)


def sweep_digest(stage):
    """The digest of a batch, 0 as it is trained, 1 as it is compared."""
    return lambda wildcards: sweep_batches(wildcards.sweep)[wildcards.batch][stage]


# Calls that make nothing, by their first letters.
LOOKING = ("--dry", "--lint", "--list", "--summ", "--detailed", "--dag", "--rulegraph")
LOOKING += ("--filegraph", "--d3dag", "--report", "--print-comp", "--help", "--version")


def hold_folder():
    """Hold this folder until the process ends, unless it only looks or is another's job."""
    words = sys.argv[1:]
    if workflow.exec_mode != workflow.exec_mode.DEFAULT or any(
        word.startswith(LOOKING) or re.fullmatch(r"-[pqkfFS]*[nSD]\w*", word)
        for word in words
    ):
        return None
    try:
        return running.hold(Path("."), os.getpid())
    except PitbError as error:
        end_with(error)


def end_at_once():
    """Cancel the timers of the limit on submissions, which would hold up the exit for a second."""
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.cancel()


CONFIG = read_config()
HELD = hold_folder()
OPTIMIZERS = [optimizer.key for optimizer in optimizers()]
PLANS = [f"results/{{scope}}/plans/{key}.json" for key in OPTIMIZERS]
OUTCOMES = [f"results/{{scope}}/judged/{key}/outcomes.json" for key in OPTIMIZERS]

# `python` in a shell command is this environment's, also where the environment is not activated.
# Batches read the configuration anew, and must hear what --config sets.
EXPORTS = (
    f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH"
    f" {batches.OVERRIDES}={shlex.quote(json.dumps(config_overrides()))}"
    f" {programs.LIMIT}={CONFIG.time_limit:g} {errors.ALSO}=3; exec 3>&2; "
)
# A process that was ended by a signal, as where memory runs out, says nothing itself: bash tells it
# by a code above 128, Ctrl-C's apart.
SAY_SIGNAL = (
    "trap 'code=$?; if [ $code -gt 128 ] && [ $code -lt 160 ] && [ $code -ne 130 ]; then"
    ' echo "error: a process of this job was ended by signal $(kill -l $code); nothing that it'
    " left is kept\" >&2; fi' EXIT; "
)
# Snakemake's own prefix, which this one replaces, is the first part: what fails before a pipe fails.
PREFIX = f"set -euo pipefail; {SAY_SIGNAL}{EXPORTS}"
shell.prefix(PREFIX.replace("{", "{{").replace("}", "}}"))

PYTORCH_BATCHES = batches.pytorch_batches(CONFIG)
BURN_BATCHES = {
    program: batches.burn_batches(CONFIG, program)
    for program in CONFIG.programs("burn")
}
PAIR_BATCHES = batches.pair_batches(CONFIG)
RUN_FILES = results(
    [
        *(
            path
            for batch in PYTORCH_BATCHES.values()
            for path in batches.outputs(batch)
        ),
        *(
            path
            for program, found in BURN_BATCHES.items()
            for batch in found.values()
            for path in batches.outputs(batch, program)
        ),
    ]
)
COMPARISONS = results(comparison_path(pair.a, pair.b) for pair in CONFIG.pairs)
EXPLANATIONS = results(
    explanation_path(pair.a, pair.b, suffix)
    for pair in CONFIG.explained()
    for suffix in EXPLAINED
)
PREFLIGHTS = [f"results/evidence/preflight/{name}.json" for name in PAIR_BATCHES]
PUBLISHED = [ROOT / f"config/published/{page}.csv" for page in CONFIG.pages]
TABLE_FILES = {
    page: [
        f"results/tables/{page}/{table}{suffix}"
        for table in PAGES[page].tables
        for suffix in (".md", ".zh.md", ".csv")
    ]
    for page in CONFIG.pages
}
EVIDENCE = results({path for page in CONFIG.pages for path in PAGES[page].needs()})
LEDGER = ["results/ledger.csv"] if CONFIG.pages else []
SUMMARIES = [
    "results/comparisons.summary",
    *(["results/ledger.summary"] if CONFIG.pages else []),
]

# Of what does not belong to `rule all`, a report shows what was made.
SCOPES = [
    scope
    for scope in reported.SCOPE_NAMES
    if made([*reported.breadth(scope), *reported.breadth_pictures(scope)])
]
REPORTED = reported.pictures(CONFIG)
for scope in SCOPES:
    REPORTED += reported.breadth_pictures(scope)
PAGE_GROUPS = {"tables": reported.tables(CONFIG)}
PAGE_GROUPS |= {scope: reported.breadth(scope) for scope in SCOPES}
if EXPLANATIONS and made(reported.explanations(CONFIG.explained())):
    PAGE_GROUPS["explanations"] = reported.explanations(CONFIG.explained())
    REPORTED += reported.explanation_pictures(CONFIG.explained())
if made(reported.port()):
    PAGE_GROUPS["port"] = reported.port()
for items in PAGE_GROUPS.values():
    REPORTED += items
STYLESHEET = "results/report/stylesheet.css"
# As Snakemake's command line has it.
REPORTING = any(word.partition("=")[0] == "--report" for word in sys.argv)
if REPORTING:
    make_reported()


wildcard_constraints:
    scope="breadth(-slice)?",
    sweep=SWEEP_NAME,
    batch="[0-9]+of[0-9]+",
    suffix="|".join(map(re.escape, FINDINGS)),
    optimizer="|".join(OPTIMIZERS),
