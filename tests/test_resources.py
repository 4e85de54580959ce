"""What every rule states of memory, time and threads, held against what the benchmarks measured."""

import csv
import os
import re
import subprocess
import sys

import pytest
from snakemake.api import SnakemakeApi
from snakemake.settings.types import ConfigSettings, ResourceSettings, WorkflowSettings
from snakemake_interface_executor_plugins.settings import ExecMode

pytestmark = pytest.mark.pipeline

# Samples miss the highest moment, and nodes may be slower than this machine.
MEMORY_MARGIN, TIME_MARGIN = 1.25, 4
# A job is Snakemake too, twice, each of 170 MB: the one that Slurm starts, and the one in its step.
SNAKEMAKE_MB = 350


def rules_of(folder, **overrides):
    """The rules as Snakemake has them, by their names; those that only gather are left out."""
    with SnakemakeApi() as api:
        loaded = api.workflow(
            ResourceSettings(cores=64),
            ConfigSettings(overrides),
            # As a job does: it looks at the folder and does not hold it.
            workflow_settings=WorkflowSettings(exec_mode=ExecMode.REMOTE),
            snakefile=folder / "Snakefile",
        )
        return {rule.name: rule for rule in loaded._workflow.rules if not rule.norun}


def stated(rule, name, attempt=1):
    """What a rule asks for on this machine at an attempt: megabytes or minutes."""
    threads = min(rule.resources["_cores"].value, os.cpu_count() or 1)
    return rule.resources[name].evaluate(None, attempt=attempt, threads=threads).value


def measured(folder):
    """What the benchmarks below a folder say: the rule's benchmark, seconds and megabytes."""
    for path in sorted((folder / "results/benchmarks").rglob("*.tsv")):
        with path.open(encoding="utf-8") as file:
            for row in csv.DictReader(file, delimiter="\t"):
                memory = [float(row[key]) for key in ("max_rss", "max_pss") if row[key] != "NA"]
                where = path.relative_to(folder).as_posix()
                yield where, float(row["s"]), max(memory, default=0.0)


def rule_of(rules, path):
    """The rule that a benchmark is of; None for one that no rule writes any longer."""
    found = [
        rule
        for rule in rules.values()
        if rule.benchmark and re.fullmatch(rule.benchmark.regex(), path)
    ]
    return found[0] if found else None


def complaints(rules, benchmarks):
    """Each rule that states less than was measured and the margin, and by how much."""
    found = []
    for path, seconds, megabytes in benchmarks:
        rule = rule_of(rules, path)
        if rule is None:
            continue
        needed = megabytes * MEMORY_MARGIN + SNAKEMAKE_MB
        if stated(rule, "mem_mb") < needed:
            found.append(f"{rule.name}: mem_mb={stated(rule, 'mem_mb')} of {needed:.0f}, {path}")
        if stated(rule, "runtime") * 60 < seconds * TIME_MARGIN:
            found.append(f"{rule.name}: runtime={stated(rule, 'runtime')} of {seconds} s, {path}")
    return found


@pytest.fixture(scope="module")
def rules(root):
    return rules_of(root)


def test_every_rule_states_memory_time_and_threads(rules, root):
    assert len(rules) > 40
    for rule in rules.values():
        assert {"mem_mb", "runtime"} <= set(rule.resources), rule.name
    for path in sorted((root / "rules").glob("*.smk")):
        text = path.read_text(encoding="utf-8")
        for word in ("threads", "mem_mb", "runtime"):
            count = len(re.findall(rf"^ +{word}(?::|=)", text, re.MULTILINE))
            assert count == len(re.findall(r"^ +shell:$", text, re.MULTILINE)), (path.name, word)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_batch_asks_for_the_threads_of_pytorch(root, threads):
    assert rules_of(root, threads=threads)["train_pytorch_0"].resources["_cores"] == threads


def test_a_retry_asks_for_more(rules):
    for rule in rules.values():
        for name in ("mem_mb", "runtime"):
            assert stated(rule, name, attempt=2) == 2 * stated(rule, name), rule.name


def test_what_is_stated_holds_up_against_what_was_measured(rules, root):
    benchmarks = list(measured(root))
    ran = {rule.name for path, _, _ in benchmarks if (rule := rule_of(rules, path))}
    assert {"train_pytorch_0", "compare_traces_0", "make_ledger"} <= ran
    assert complaints(rules, benchmarks) == []


@pytest.mark.parametrize(
    ("seconds", "megabytes", "said"),
    [(1.0, 10.0, []), (1.0, 1400.0, ["mem_mb"]), (901.0, 10.0, ["runtime"])],
)
def test_too_little_is_seen(rules, seconds, megabytes, said):
    found = complaints(rules, [("results/benchmarks/train_pytorch-0.tsv", seconds, megabytes)])
    assert [re.search(r": (\w+)=", line).group(1) for line in found] == said


def test_a_batch_of_a_sweep_that_takes_too_much_is_seen(rules, tmp_path):
    path = tmp_path / "results/benchmarks/sweeps/small/burn-0of4.tsv"
    path.parent.mkdir(parents=True)
    path.write_text("s\tmax_rss\tmax_pss\n1.5\t900.0\tNA\n")
    assert complaints(rules, measured(tmp_path)) == [
        "train_sweep_burn: mem_mb=1000 of 1475, results/benchmarks/sweeps/small/burn-0of4.tsv"
    ]


MEETING = """
for name, other in ("ab", "ba"):
    rule:
        name: name
        output: name
        params: other=other
        resources: mem_mb=10**9, runtime=10**6
        shell: "touch {output}; for _ in $(seq 60); do test -e {params.other} && exit; "
               "sleep 0.1; done; exit 1"
rule all:
    default_target: True
    input: "a", "b"
"""


@pytest.mark.parametrize(("limit", "code"), [((), 0), (("--resources", "mem_mb=10"), 1)])
def test_no_rule_waits_for_another_because_of_its_memory(tmp_path, limit, code):
    """Each of two jobs waits for the other, so that both end only where both run at once."""
    (tmp_path / "Snakefile").write_text(MEETING)
    command = [sys.executable, "-m", "snakemake", "--cores", "2", *limit]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == code, ended.stdout + ended.stderr


def test_the_profile_of_one_machine_sets_no_limit(root):
    text = (root / "profiles/default/config.yaml").read_text(encoding="utf-8")
    assert not re.search(r"^(default-)?resources:", text, re.MULTILINE)
