"""Sweeps on the built programs: trained, compared, read by others, rerun, and broken on purpose."""

import collections
import os
import re
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import clones
import sweeping
from pitb import compare, trace
from pitb import programs as programs_module
from pitb.errors import PitbError
from pitb.sweeps import dataset, judge, outcomes, plan, runs, summary, training
from sweeping import EDITED, SWEEP, TARGET

pytestmark = pytest.mark.pipeline
ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Made:
    """A sweep that was trained undisturbed, what it came to, and how long that took."""

    folder: Path
    content: dict[str, bytes]
    seconds: float


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, programs: Path) -> Made:
    folder = sweeping.put(tmp_path_factory.mktemp("a sweep 扫描"))
    return Made(folder, *sweeping.train(ROOT, folder))


@pytest.fixture(scope="module")
def work(made: Made) -> Path:
    return made.folder


@pytest.fixture(scope="module")
def sweep(work: Path) -> Path:
    return work / "results/sweeps/small"


def snakemake(work: Path, *words: str) -> tuple[int, str]:
    ended: tuple[int, str] = clones.snakemake(work, *sweeping.arguments(ROOT, work), *words)
    return ended


def batch_of(sweep: Path, name: str) -> tuple[plan.Batch, dataset.Batch, dataset.Batch]:
    sides = (dataset.read(sweep / "traces" / f"{side}-{name}.parquet") for side in plan.SIDES)
    return (plan.read_batch(sweep / "plan", name), *sides)


BATCHES = ("0of2", "1of2")


def test_every_run_has_its_verdict(sweep: Path) -> None:
    rows = pq.read_table(sweep / "runs.parquet").to_pylist()
    found = {
        (row["optimizer"], row["lr"], row["burn"], row["problem"], row["reason"]): row
        for row in rows
    }
    assert len(found) == len(rows) == 14
    verdicts = collections.Counter(row["verdict"] for row in rows)
    assert verdicts == {"OK": 7, "MISMATCH": 4, "declared skip": 3}
    skipped = sorted(row["reason"] for row in rows if row["verdict"] == outcomes.SKIPPED)
    assert [reason.partition(" ")[0] for reason in skipped] == ["burn:", "pytorch:", "pytorch:"]
    (diverged,) = (row for row in rows if row["lr"] == 1e30)
    assert diverged["verdict"] == "MISMATCH"
    assert diverged["first_nonfinite_pytorch"] == diverged["first_nonfinite_burn"] == 2
    assert diverged["max_abs"] == np.inf
    summary = (sweep / "summary.md").read_text(encoding="utf-8")
    assert "14 runs: 7 OK, 4 MISMATCH, 0 error, 3 declared skip" in summary
    (line,) = (line for line in summary.splitlines() if line.startswith(f"| `{diverged['run']}`"))
    assert line.endswith("| 1 | 2 | 2 |")  # beyond the tolerance, and not finite on each side
    assert "<!-- not finite -->" in (sweep / "plots/differences.svg").read_text()
    assert "共 14 次运行" in (sweep / "summary.zh.md").read_text(encoding="utf-8")
    for name in ("verdicts", "differences"):
        assert (sweep / "plots" / f"{name}.svg").read_text().startswith("<?xml")


@pytest.mark.parametrize("name", BATCHES)
def test_it_compares_as_two_traces_are_compared(sweep: Path, name: str) -> None:
    batch, *sides = batch_of(sweep, name)
    written = collections.defaultdict(list)
    for row in pq.read_table(sweep / "comparisons" / f"{name}.parquet").to_pylist():
        written[row.pop("run")].append(row)
    found = outcomes.read_outcomes(sweep / f"outcomes/{name}.parquet")
    compared = 0
    for outcome in found:
        run = outcome["run"]
        if outcome["verdict"] not in ("OK", "MISMATCH"):
            continue
        prescribed = batch["points"][run].problem == "nan"
        quantities = ["param"] if prescribed else ["loss", "param"]
        one = compare.compare(*(s.trace(run) for s in sides), 1e-5, quantities)
        assert repr([asdict(row) for row in one.rows]) == repr(written[run])
        assert outcome["verdict"] == one.verdict
        assert repr(outcome["max_abs"]) == repr(one.worst)
        compared += 1
    assert compared > 2


def test_what_is_not_finite_on_one_side_alone_is_drawn(sweep: Path, tmp_path: Path) -> None:
    table = summary.read(sweep / "runs.parquet", plan.read_about(sweep / "plan"))
    drawn = {}
    for verdict, largest in (("OK", 0.5), ("error", np.inf)):
        columns = {key: column.copy() for key, column in table.columns.items()}
        columns["max_abs"] = np.full(14, 0.5)
        columns["max_abs"][0] = largest
        columns["verdict"] = np.array(["OK"] * 14, dtype=object)
        columns["verdict"][0] = verdict
        path = tmp_path / f"{verdict}.svg"
        summary.draw_differences(replace(table, columns=columns), path)
        drawn[verdict] = "<!-- not finite -->" in path.read_text(encoding="utf-8")
    assert drawn == {"OK": False, "error": True}


def test_the_three_readers_find_the_same(sweep: Path) -> None:
    folder = f"{sweep}/traces"
    by_duckdb = duckdb.sql(
        f"SELECT count(*), sum(value) FILTER (step = 0) FROM '{folder}/*.parquet'"
    )
    by_polars = pl.scan_parquet(f"{folder}/*.parquet").select(
        pl.len(), pl.col("value").filter(pl.col("step") == 0).sum()
    )
    by_pandas = pd.read_parquet(folder)
    count, total = by_duckdb.fetchall()[0]
    assert by_polars.collect().row(0) == (count, pytest.approx(total))
    assert len(by_pandas) == count > 1000
    assert by_pandas.value[by_pandas.step == 0].sum() == pytest.approx(total)
    assert list(by_pandas.columns) == list(dataset.COLUMNS)
    for name in ("traces", "comparisons", "outcomes"):
        schemas = {
            str(pq.read_schema(path).remove_metadata()) for path in (sweep / name).glob("*.parquet")
        }
        assert len(schemas) == 1
        for path in (sweep / name).glob("*.parquet"):
            assert not any(field.nullable for field in pq.read_schema(path))


def test_the_examples_of_the_pages_run(work: Path) -> None:
    for page in ("sweeps.md", "sweeps.zh.md"):
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        examples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        assert len(examples) == 3
        for example in examples:
            code = example.replace("results/sweeps/example", str(work / "results/sweeps/small"))
            ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
            assert ended.returncode == 0, ended.stderr
            assert "MISMATCH" in ended.stdout


def test_one_run_is_taken_out(sweep: Path, tmp_path: Path) -> None:
    names = pq.read_table(sweep / "runs.parquet", columns=["run"]).column(0).to_pylist()
    name = next(n for n in names if n.startswith("adamw-lr0.1-burn"))
    command = [sys.executable, "-m", "pitb", "sweep", "extract", str(sweep), name]
    command += ["--out", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "scripts")}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert ended.returncode == 0, ended.stderr
    paths = [Path(line) for line in ended.stdout.splitlines()]
    one = compare.compare_files(*paths, 1e-6)
    assert one.verdict == "MISMATCH"
    assert trace.read(paths[0]).run == f"pytorch/{name}"
    command[6] = name[:-1]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (ended.returncode, "nearest: " in ended.stderr) == (2, True)


def test_a_value_that_is_altered_flips_the_verdict(sweep: Path) -> None:
    for name in BATCHES:
        batch, pytorch, burn = batch_of(sweep, name)
        before, _ = judge.judge(batch, pytorch, burn)
        fine = next(item.run for item in before if item.verdict == "OK" and item.max_abs < 5e-7)
        values = burn.values.copy()
        run = burn.trace(fine)
        last = next(entry for entry in reversed(run.entries) if entry.quantity == "param")
        values[burn.runs[fine]["first_row"] + last.first_row] += 1e-3
        after, _ = judge.judge(batch, pytorch, replace(burn, values=values))
        changed = [a.run for a, b in zip(after, before, strict=True) if a.verdict != b.verdict]
        assert changed == [fine]
        values[burn.runs[fine]["first_row"] + last.first_row] = np.nan
        after, _ = judge.judge(batch, pytorch, replace(burn, values=values))
        (item,) = (a for a in after if a.run == fine)
        assert item.verdict == "error" or item.verdict == "MISMATCH"
        assert item.first_nonfinite_burn == last.step
        assert item.first_nonfinite_pytorch == outcomes.NEVER


def test_another_start_is_no_comparison(sweep: Path) -> None:
    batch, pytorch, burn = batch_of(sweep, BATCHES[0])
    before, _ = judge.judge(batch, pytorch, burn)
    fine = next(item.run for item in before if item.verdict == "OK")
    values = burn.values.copy()
    start = burn.trace(fine).select(0, "param")[0]
    row = burn.runs[fine]["first_row"] + start.first_row
    values[row] = np.nextafter(values[row], 1)
    after, _ = judge.judge(batch, pytorch, replace(burn, values=values))
    (item,) = (a for a in after if a.run == fine)
    assert item.verdict == "error"
    assert item.reason.startswith("initial state differs")


def test_a_lost_run_breaks_the_sum(sweep: Path, tmp_path: Path) -> None:
    copy = tmp_path / "small"
    shutil.copytree(sweep, copy)
    counts = runs.write(copy, copy / "runs.parquet")
    with pytest.raises(PitbError, match="do not add up to 15 runs"):
        runs.check_sum(counts, 15, copy / "runs.parquet")
    path = copy / "outcomes/0of2.parquet"
    table = pq.read_table(path)
    pq.write_table(table.slice(1), path)
    with pytest.raises(PitbError, match="is lost"):
        runs.write(copy, copy / "runs.parquet")
    batch, pytorch, burn = batch_of(sweep, BATCHES[0])
    del burn.runs[next(iter(burn.runs))]
    with pytest.raises(PitbError, match="does not hold the run"):
        judge.judge(batch, pytorch, burn)


@pytest.mark.skipif(os.name != "posix", reason="there are no process groups to kill here")
def test_a_sweep_that_was_killed_ends_with_the_same_bytes(made: Made, tmp_path: Path) -> None:
    """At one moment; test_faults_sweeps.py has more."""
    seconds = made.seconds * sweeping.moment(sweeping.IN_CI)
    sweeping.kill_and_go_on(ROOT, tmp_path / "killed 杀", seconds, made.content)


def test_again_nothing_and_after_one_edit_one_batch(work: Path) -> None:
    _, said = snakemake(work, "-n", TARGET)
    assert "Nothing to be done" in said
    sweeping.put(work, EDITED)
    _, said = snakemake(work, "-n", TARGET)
    sweeping.put(work)
    jobs = {name: int(count) for name, count in re.findall(r"^(\w+)\s+(\d+)$", said, re.MULTILINE)}
    assert jobs == {
        "train_sweep_pytorch": 1,
        "train_sweep_burn": 1,
        "compare_sweep": 1,
        "summarise_sweep": 1,
        "total": 4,
    }


def again(file: Path, folder: Path) -> list[str]:
    """Plan a sweep, train and compare it in this process; the names of its batches."""
    found = plan.write(file, folder)
    batches = list(plan.batches(found, plan.read_places(found, folder)))
    for name in batches:
        batch = plan.read_batch(folder / "plan", name)
        paths = [folder / "traces" / f"{side}-{name}.parquet" for side in plan.SIDES]
        training.train_pytorch(batch, paths[0])
        training.train_burn(batch, ROOT / "target/release/optdef", paths[1])
        verdicts, rows = judge.judge(batch, *map(dataset.read, paths))
        outcomes.write_rows(batch, rows, folder / "comparisons" / f"{name}.parquet")
        outcomes.write_outcomes(verdicts, folder / "outcomes" / f"{name}.parquet")
    runs.write(folder, folder / "runs.parquet")
    return batches


@pytest.mark.torch
def test_the_same_again_gives_the_same_bytes(made: Made, tmp_path: Path) -> None:
    """Of both sides and all batches, also in another process and elsewhere."""
    folder = tmp_path / "results/sweeps/small"
    assert again(made.folder / "config/sweeps/small.yaml", folder) == list(BATCHES)
    summary.write(folder / "runs.parquet", plan.read_about(folder / "plan"), folder)
    assert sweeping.sweep_bytes(tmp_path) == made.content


@pytest.mark.torch
@pytest.mark.parametrize("batches", [1, 5])
def test_other_batches_give_the_same_values_and_verdicts(
    sweep: Path, tmp_path: Path, batches: int
) -> None:
    sweeping.put(tmp_path, SWEEP.replace("batches: 2", f"batches: {batches}"))
    names = again(tmp_path / "config/sweeps/small.yaml", tmp_path)
    assert set(names).isdisjoint(BATCHES)
    for side in plan.SIDES:
        mine, others = (
            {
                run: (part, found)
                for name in cut
                for part in [dataset.read(folder / "traces" / f"{side}-{name}.parquet")]
                for run, found in part.runs.items()
            }
            for folder, cut in ((tmp_path, names), (sweep, BATCHES))
        )
        assert len(mine) == 14
        assert mine.keys() == others.keys()
        for run, (part, found) in mine.items():
            other = others[run][0]
            assert part.refused(run) == other.refused(run)
            if "refused" not in found:
                one, two = part.trace(run), other.trace(run)
                assert (one.entries, one.metadata) == (two.entries, two.metadata)
                assert one.values.tobytes() == two.values.tobytes()
    for name in ("runs.parquet", "comparisons"):
        one, two = (
            ds.dataset(folder / name)
            .to_table()
            .sort_by(
                [(key, "ascending") for key in ("run", "step", "quantity", "tensor")]
                if name == "comparisons"
                else "run"
            )
            for folder in (tmp_path, sweep)
        )
        assert sum(part.num_rows for part in (one, two)) >= 28
        kept = [column for column in one.column_names if column != "batch"]
        # As text, since a NaN is not itself.
        assert repr(one.select(kept).to_pylist()) == repr(two.select(kept).to_pylist())


def test_a_mistake_ends_the_call_with_one_sentence(work: Path) -> None:
    text = SWEEP.replace("small", "wrong").replace("SGD", "SDG")
    (work / "config/sweeps/wrong.yaml").write_text(text)
    code, said = snakemake(work, "-n", "results/sweeps/wrong/summary.md")
    (work / "config/sweeps/wrong.yaml").unlink()
    assert code == 2
    lines = [line for line in said.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    assert "config/sweeps/wrong.yaml, line 5" in lines[0]


def test_a_name_that_no_sweep_can_have_ends_the_call_with_one_sentence(work: Path) -> None:
    path = work / "config/sweeps/a 扫.yaml"
    path.write_text(SWEEP)
    code, said = snakemake(work, "-n", "sweeps")
    path.unlink()
    lines = [line for line in said.splitlines() if line.startswith("error: ")]
    assert (code, lines) == (
        2,
        ["error: config/sweeps/a 扫.yaml: 'a 扫' is not a name of letters, digits, - and _"],
    )
    command = ["make", "-o", "setup", "sweep", "NAME=a 扫"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: NAME is 'a 扫', but a sweep has a name of letters, ")


@pytest.mark.skipif(os.name != "posix", reason="the stand-ins are shell scripts")
@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("exit 0", "program ended without writing"),
        ("exit 3", "program failed with exit code 3"),
        ("kill -SEGV $$", "program was ended by signal 11, SIGSEGV"),
        ("exec sleep 60", "program took longer than 0.5 s and was ended"),
        ('echo half > "$4"', "it is no whole Parquet file"),
    ],
)
def test_a_program_that_fails_leaves_nothing(
    sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, sentence: str
) -> None:
    monkeypatch.setenv(programs_module.LIMIT, "0.5")
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    batch = plan.read_batch(sweep / "plan", BATCHES[0])
    with pytest.raises(PitbError, match=sentence) as caught:
        training.train_burn(batch, program, tmp_path / "out.parquet")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out.parquet").exists()
