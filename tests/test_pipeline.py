"""The pipeline, run for real: in a clone whose path has spaces and other letters, and elsewhere."""

import csv
import os
import re
import signal
import subprocess
import sys
import time

import pyarrow.parquet as pq
import pytest

from clones import PROBES, copy_project, make, result_bytes, snakemake, stamps
from pitb import labels, running, trace

pytestmark = [pytest.mark.pipeline, pytest.mark.torch]

AFTER_TABLES = {"make_ledger", "check_results", "all"}
COMPARED = {"compare_traces_0", "summarise_comparisons"}
TABLES = {"make_tables_one_step", "make_tables_optimizer_defaults"}


def would_run(folder, *arguments):
    """The names of the rules that a call would run."""
    code, printed = snakemake(folder, "--dry-run", *arguments)
    assert code == 0, printed
    table = printed.rpartition("Job stats:")[2] if "Job stats:" in printed else ""
    return set(re.findall(r"^(\w+) +\d+$", table, re.MULTILINE)) - {"total"}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return tmp_path_factory.mktemp("Ünï spâce 空格")


@pytest.fixture(scope="module")
def elsewhere(base, root, programs):
    """All of it from another working folder, on one core."""
    folder = base / "else where"
    folder.mkdir()
    arguments = ("-s", root / "Snakefile", "--directory", folder)
    code, printed = snakemake(folder, *arguments, cores=1, cwd=base)
    assert code == 0, printed
    return folder


@pytest.fixture(scope="module")
def project(base, root, programs, elsewhere):
    """A copy of what git tracks, with the programs that are built already, all results made.

    What the compiler says is copied too: asking it again would build the workspace again.
    """
    folder = base / "pröject"
    copy_project(root, folder, elsewhere)
    code, printed = snakemake(folder)
    assert code == 0, printed
    assert "comparisons: 17: 8 OK, 9 MISMATCH, 0 error" in printed
    assert "ledger: 258 published figures: 258 agrees, 0 differs, 0 missing" in printed
    return folder


@pytest.fixture
def edit(project):
    """Edits a file of the project for one test.

    The time is put back too: the copied programs were not built here, so nothing but their time
    says that they are newer than their sources.
    """
    undo = {}
    before = stamps(project / "results")

    def change(name, old, new):
        path = project / name
        text = path.read_text(encoding="utf-8")
        assert old in text
        undo.setdefault(path, (text, path.stat().st_mtime_ns))
        path.write_text(text.replace(old, new, 1), encoding="utf-8")

    yield change
    for path, (text, time_ns) in undo.items():
        path.write_text(text, encoding="utf-8")
        os.utime(path, ns=(time_ns, time_ns))
    if stamps(project / "results") != before:  # a dry run has left all as it was
        code, printed = snakemake(project)
        assert code == 0, printed


def test_results_are_the_same_bytes_wherever_they_are_made(project, elsewhere):
    here, there = result_bytes(project), result_bytes(elsewhere)
    assert len(here) > 100
    assert here == there


def test_a_second_call_has_nothing_to_do(project):
    code, printed = snakemake(project)
    assert code == 0
    assert "Nothing to be done" in printed


@pytest.mark.parametrize(
    ("name", "old", "new", "runs"),
    [
        pytest.param(
            "config/config.yaml",
            "rmsprop: {optimizer: RmsProp, lr: 0.01",
            "rmsprop: {optimizer: RmsProp, lr: 0.02",
            {"train_burn_optdef_0", *COMPARED} | TABLES,
            id="one burn run",
        ),
        pytest.param(
            "config/config.yaml",
            "sgdm: {optimizer: SGD",
            "sgdm: {program: optdef, optimizer: SGD, options: {}",
            None,
            id="a repeated key is refused",
        ),
        pytest.param(
            "config/config.yaml",
            "adagrad: {optimizer: Adagrad, lr: 0.1",
            "adagrad: {optimizer: Adagrad, lr: 0.2",
            {"train_pytorch_0", *COMPARED} | TABLES,
            id="one PyTorch run",
        ),
        pytest.param(
            "config/config.yaml",
            "runs:\n",
            "# a comment moves every line\nruns:\n",
            "nothing",
            id="a comment",
        ),
        pytest.param(
            "config/config.yaml",
            "tolerance: 1e-6",
            "tolerance: 1e-5",
            {*COMPARED} | TABLES,
            id="the tolerance",
        ),
        pytest.param(
            "crates/pitb-opt/src/bin/optdef.rs",
            "fn main()",
            "// edited\nfn main()",
            {
                "build_programs",
                "train_burn_optdef_0",
                "train_burn_clip_0",
                "train_burn_train_step_0",
                "record_burn_defaults",
                "record_moves",
                "probe_compiler",
                *COMPARED,
            }
            | TABLES,
            id="a burn program",
        ),
        pytest.param(
            "scripts/pitb/labels.py", "TITLES", "# edited\nTITLES", TABLES, id="headings of tables"
        ),
        pytest.param(
            "scripts/pitb/compare.py",
            "OK, MISMATCH",
            "# edited\nOK, MISMATCH",
            {*COMPARED} | TABLES,
            id="the comparison",
        ),
        pytest.param(
            "scripts/pitb/pytorch.py",
            "def train(",
            "# edited\ndef train(",
            {"train_pytorch_0", *COMPARED} | TABLES,
            id="PyTorch's side",
        ),
        pytest.param(
            "config/published/one-step.csv", "1.49e-08", "1.50e-08", set(), id="a published figure"
        ),
    ],
)
def test_an_edit_reruns_what_depends_on_it_and_nothing_else(project, edit, name, old, new, runs):
    edit(name, old, new)
    if runs is None:
        code, printed = snakemake(project, "--dry-run")
        assert code != 0
        assert "key 'options' was given before" in printed
        assert "Traceback" not in printed
    elif runs == "nothing":
        assert would_run(project) == set()
    else:
        assert would_run(project) == runs | AFTER_TABLES


def altered(path, run_step, quantity, tensor, change):
    """Change one value of a trace and leave all else as it is."""
    found = trace.read(path)
    entry = found.by_key()[(run_step, quantity, tensor)]
    values = found.values.copy()
    values[entry.first_row] = change(values[entry.first_row])
    trace.write(trace.Trace(found.entries, values, found.metadata), path)


def ledger_failures(project):
    with (project / "results/ledger.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 258
    return {(r["table"], r["row"], r["column"]) for r in rows if r["status"] != "agrees"}


@pytest.fixture
def kept(project):
    """Puts a trace back after a test, and the results that were made of it."""
    undo = {}

    def keep(name):
        path = project / "results/traces" / f"{name}.parquet"
        undo[path] = path.read_bytes()
        return path

    yield keep
    for path, content in undo.items():
        path.write_bytes(content)
    code, printed = snakemake(project)
    assert code == 0, printed


def test_one_altered_value_fails_exactly_the_figures_it_touches(project, kept):
    path = kept("burn/rmsprop")
    altered(path, 10, "param", "fc1.weight", lambda value: value + 10)
    code, printed = snakemake(project)
    assert code == 1
    assert "ledger: 258 published figures: 256 agrees, 2 differs, 0 missing" in printed
    assert ledger_failures(project) == {
        ("mismatch", "rmsprop", "step 10 max|dparam|"),
        ("rmsprop-steps", "step 10", "max|dparam|"),
    }
    # ... and goes on failing until it is mended.
    assert snakemake(project)[0] == 1


def test_an_altered_loss_fails_its_own_figures(project, kept):
    path = kept("pytorch/adamw")
    altered(path, 10, "loss", "", lambda value: value + 1e-3)
    assert snakemake(project)[0] == 1
    assert ledger_failures(project) == {
        ("mismatch", "adamw", "step 10 |dloss|"),
        ("aligned", "adamw", "worst over 10 steps (loss or parameter)"),
        ("aligned", "adamw", "verdict"),
        ("aligned", "summary", "exit_code"),
        *(
            ("ablation", f"adamw only-{item} step 10", column)
            for item in ("eps", "wd")
            for column in ("loss_pt", "|dloss|")
        ),
    }


def test_another_initial_state_is_an_answer_and_no_table(project, kept):
    path = kept("pytorch/sgd")
    altered(path, 0, "input", "x", lambda value: value + 2**-24)
    code, printed = snakemake(project)
    assert code == 1
    sentence = "initial state differs: x[0] -0.4999999403953552 vs -0.5"
    assert f"pytorch/sgd and burn/sgd were not compared: {sentence}" in printed
    assert "comparisons: 17: 7 OK, 9 MISMATCH, 1 error" in printed
    table = (project / "results/tables/one-step/train-step.md").read_text(encoding="utf-8")
    assert sentence in table
    assert "|" not in table
    # All of its figures are missing, and none is left over from before.
    failures = ledger_failures(project)
    assert {table for table, _, _ in failures} == {"train-step"}
    assert len(failures) == 26


def test_a_run_is_added_by_its_name_alone(project, edit):
    lion = "lion: {optimizer: Lion, options: {beta_2: 0.98}, lr: 0.001, steps: 3}"
    edit("config/config.yaml", "  burn:\n", f"  burn:\n    {lion}\n")
    assert "train_burn_optdef_0" in would_run(project)
    code, printed = snakemake(project)
    assert code == 0, printed
    found = trace.read(project / "results/traces/burn/lion.parquet")
    assert found.configuration["options"]["beta_2"] == 0.98
    assert len(found.select(3, "param")) == 4
    # With it there, an edit of another run is still noticed.
    edit(
        "config/config.yaml",
        "rmsprop: {optimizer: RmsProp, lr: 0.01",
        "rmsprop: {optimizer: RmsProp, lr: 0.02",
    )
    assert "train_burn_optdef_0" in would_run(project)
    (project / "results/traces/burn/lion.parquet").unlink()


def test_a_page_needs_its_runs_and_a_configuration_needs_no_page(base, root, programs):
    folder = base / "own configuration"
    (folder / "config").mkdir(parents=True)
    text = "tolerance: 1e-6\nthreads: 1\nbatch_size: 10\ncomparisons: []\n"
    text += "runs:\n  pytorch: {x: {optimizer: SGD, lr: 0.1, steps: 1}}\n"
    text += "  burn: {x: {optimizer: Sgd, lr: 0.1, steps: 1}}\n"
    config = folder / "config/config.yaml"
    config.write_text(text + "pages: [one-step]\n")
    arguments = ("-s", root / "Snakefile", "--directory", folder)
    code, printed = snakemake(folder, *arguments)
    assert code == 2
    assert "page 'one-step' needs the run 'burn/sgd', which is not in runs" in printed
    config.write_text(text + "pages: []\n")
    code, printed = snakemake(folder, *arguments)
    assert code == 0, printed
    assert (folder / "results/traces/burn/x.parquet").is_file()
    assert "comparisons: 0: 0 OK, 0 MISMATCH, 0 error" in printed


@pytest.mark.parametrize(
    "name",
    [
        "ledger.summary",
        "ledger.csv",
        "traces/burn/sgdm.parquet",
        "tables/one-step/moves.zh.md",
        "evidence/moves/burn.json",
    ],
)
def test_a_deleted_result_is_made_again(project, name):
    path = project / "results" / name
    before = path.read_bytes()
    path.unlink()
    code, printed = snakemake(project)
    assert code == 0, printed
    assert path.read_bytes() == before


@pytest.mark.parametrize("text", ["garbage\n", None])
def test_a_spoilt_ledger_is_not_believed(project, text):
    path = project / "results/ledger.csv"
    whole = path.read_text(encoding="utf-8")
    path.write_text(text or whole[:20000], encoding="utf-8")
    code, printed = snakemake(project)
    assert code == 1
    assert "ledger" in printed
    path.unlink()
    assert snakemake(project)[0] == 0
    assert path.read_text(encoding="utf-8") == whole


def test_a_report_has_what_there_is_and_leaves_the_rest_alone(project):
    before = result_bytes(project)
    code, printed = snakemake(project, "--report", "report.html")
    assert code == 0, printed
    text = (project / "report.html").read_text(encoding="utf-8")
    assert "results/report/ledger.html" in text
    assert len(list((project / "results/plots").glob("*.svg"))) == 17 * 3 + 6
    # Nothing but the pages was made here.
    assert "The whole field was not made here" in text
    assert "4 Findings" not in text
    assert "safe center" in text  # the project's stylesheet
    assert result_bytes(project) == before
    assert would_run(project) == set()
    # ... and what is there already is not made again, but for what is gone.
    picture = project / "results/plots/pytorch.rmsprop.remaining.svg"
    assert "draw_plots" not in would_run(project, "reported")
    picture.rename(picture.with_suffix(".kept"))
    assert "draw_plots" in would_run(project, "reported")
    picture.with_suffix(".kept").rename(picture)


def test_where_nothing_was_made_a_report_says_so(base, root):
    folder = base / "nothing"
    folder.mkdir()
    code, printed = snakemake(
        folder, "-s", root / "Snakefile", "--directory", folder, "--report", "x.html"
    )
    assert code == 2
    assert (
        "error: there is nothing to report yet, since results/comparisons.md is missing" in printed
    )
    assert not (folder / "x.html").exists()


def test_resume_leaves_a_run_that_goes_on_alone(project):
    with running.hold(project, os.getpid()):
        ended = make(project, "resume")
    assert ended.returncode == 2
    assert f"error: a run is going on in {project} (process {os.getpid()})" in ended.stderr


def test_a_killed_run_goes_on_to_the_same_bytes(project):
    """Between two stages; random moments are killed in test_faults_kills.py."""
    moment = "results/traces/pytorch/sgd.parquet"
    before = result_bytes(project)
    kept = {project / f"results/evidence/{probe}.json" for probe in PROBES}
    for path in (project / "results").rglob("*"):
        if path.is_file() and path not in kept:
            path.unlink()
    process = subprocess.Popen(
        [sys.executable, "-m", "snakemake", "--cores", "2"],
        cwd=project,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while not (project / moment).exists():
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    # The documented command.
    ended = make(project, "resume")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.endswith("258 agrees, 0 differs, 0 missing\n")
    assert result_bytes(project) == before


def test_a_mistake_in_the_configuration_is_one_sentence(project, edit):
    edit("config/config.yaml", "tolerance: 1e-6", "tolerence: 1e-6")
    code, printed = snakemake(project)
    assert code == 2
    (line,) = [line for line in printed.splitlines() if line.startswith("error: ")]
    assert re.fullmatch(
        r"error: config/config\.yaml, line 4: unknown key 'tolerence'; "
        r"the nearest valid one is 'tolerance'",
        line,
    )
    assert "Traceback" not in printed


def test_a_mistake_in_an_option_names_its_line(project, edit):
    edit("config/config.yaml", "options: {momentum: 0.0}", "options: {momentun: 0.0}")
    code, printed = snakemake(project)
    assert code == 1
    assert re.search(
        r"config/config\.yaml, line \d+: run burn/rmsprop-only-mom: .* unknown field "
        r'"momentun"; the nearest is "momentum"',
        printed,
    )


def test_a_word_for_a_boolean_names_its_line(project, edit):
    edit("config/config.yaml", "options: {momentum: 0.9}, lr", "options: {nesterov: no}, lr")
    code, printed = snakemake(project)
    assert code == 1
    assert re.search(
        r"config/config\.yaml, line \d+: run pytorch/sgdm: nesterov of torch\.optim\.SGD is 'no'",
        printed,
    )


def test_every_name_in_a_table_has_a_heading_in_chinese(project):
    from pitb import tables

    for page in (project / "results/tables").iterdir():
        for figure in tables.read_figures(page / "figures.csv"):
            if figure.table == "defaults":
                continue  # names of options, the same in every language
            name = figure.column
            known = name in labels.COLUMNS or tables.label(name, "zh") != name
            assert known or re.fullmatch(r"get::.*", name), name


def test_traces_of_both_sides_are_one_tidy_table(project):
    folder = project / "results/traces"
    tables = [pq.read_table(path) for path in sorted(folder.rglob("*.parquet"))]
    assert len(tables) == 23
    assert len({str(table.schema.remove_metadata()) for table in tables}) == 1


def test_steps_are_in_order_and_values_follow_the_contents(project):
    for path in (project / "results/traces").rglob("*.parquet"):
        found = trace.read(path)
        table = pq.read_table(path)
        assert table["step"].to_pylist() == sorted(table["step"].to_pylist())
        row = 0
        for entry in found.entries:
            part = table.slice(row, entry.count)
            assert part["quantity"].unique().to_pylist() == [entry.quantity]
            assert part["tensor"].unique().to_pylist() == [entry.tensor]
            assert part["index"].to_pylist() == list(range(entry.count))
            row += entry.count
        assert row == table.num_rows


def test_every_comparison_adds_up_and_states_its_preflight(project):
    from pitb import compare

    found = [compare.read(path) for path in (project / "results/comparisons").iterdir()]
    assert len(found) == 17
    for comparison in found:
        assert sum(comparison.counts().values()) == comparison.total
        exempt = comparison.b == "burn/sgd-f32-inputs"
        expected = compare.EXEMPT if exempt else compare.IDENTICAL
        assert comparison.initial_state["status"] == expected
        a, b = comparison.initial_state["hashes"].values()
        assert len(a) == 6
        assert (a == b) is not exempt
