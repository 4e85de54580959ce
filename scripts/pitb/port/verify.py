"""Training both sides of a port: PyTorch's call, and the very Rust that was generated from it.

All ports share one generated crate and one call of cargo, with the project's own burn. Traces are
judged by the laws of the breadth: against the reference as it describes each library, and against
each other. What differs there is OK where it is a difference in equations that the descriptions
name, which no option could align.
"""

import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pitb import libraries, programs, schedulers
from pitb.breadth import cases, coverage, reproductions
from pitb.breadth.cases import Case, OptionSet
from pitb.breadth.judge import Judge, Outcome
from pitb.breadth.phases import IMPOSSIBLE
from pitb.cargo import build_generated
from pitb.compare import ERROR, MISMATCH, OK
from pitb.errors import PitbError
from pitb.files import write_json, write_text
from pitb.port import emit
from pitb.port.assemble import EPOCH, Port, Unit, burn_clipping
from pitb.port.schedules import Config
from pitb.port.values import Placeholder
from pitb.problems import problem
from pitb.registry import Optimizer, plain

PACKAGE = "ported"
CRATE = "pitb-port"
SAME, EQUATION, DIFFERS, REFUSED, ABSENT, UNTRIED = (
    *("same", "equation", "differs", "refused", "absent", "untried"),
)
PASSING = (SAME, EQUATION)
TELLS = 10.0
"""How many tolerances a run must move its parameters to tell anything."""


@dataclass(frozen=True)
class Tried:
    """A port that is verified."""

    key: str
    """A name of letters, digits, - and _, different from the others'."""
    ports: Mapping[str, Port]
    """The port in each dtype; they differ where PyTorch's None stands for the dtype's epsilon."""
    unit: int = 0
    """Which of its units."""

    def of(self, dtype: str) -> Unit:
        """The unit in a dtype."""
        return self.ports[dtype].units[self.unit]


@dataclass
class Verdict:
    """What became of a port."""

    key: str
    status: str
    """same, equation (the port is right, and the libraries compute differently), differs, refused
    (something cannot be carried over), absent, or untried."""
    reason: str = ""
    cases: int = 0
    same: int = 0
    """Cases in which both libraries agree."""
    choices: list[str] = field(default_factory=list)
    """The choices of equation that make the others differ."""

    @property
    def passes(self) -> bool:
        """Whether the generated code does what PyTorch's call says."""
        return self.status in PASSING


def untried(unit: Unit) -> str:
    """Why a unit cannot be trained; empty where it can."""
    if unit.all_lost:
        return f"not everything is carried over: {unit.all_lost[0]}"
    if unit.ported is None:
        return "there is no optimizer to train with"
    open_ = [*unit.ported.placeholders.values(), *unit.placeholders.values()]
    open_ += [group.lr for group in unit.ported.groups if isinstance(group.lr, Placeholder)]
    open_ += [clip.bound for clip in unit.clips if isinstance(clip.bound, Placeholder)]
    if open_:
        code = open_[0].code
        return f"{code} is known only when the program runs; give it with --set '{code}=...'"
    if len(unit.ported.groups) > 1 and unit.schedules:
        return "groups with a schedule are not trained together"
    if len(unit.clips) > 1:
        return "several clips are not trained together"
    return ""


# Cases


def cases_of(tried: Tried, problems: Sequence[str], dtypes: Sequence[str]) -> Iterator[Case]:
    """The runs of a port."""
    unit = tried.of(dtypes[0])
    assert unit.ported is not None
    entry = unit.ported.entry
    group = unit.ported.groups[0]
    options = {k: plain(v) for k, v in group.options.items() if k in _settable(entry)}
    for name in problems:
        if not cases._takes(entry, name):
            continue
        groups = _split(unit, name)
        if groups is None:
            continue
        for dtype in dtypes:
            spelled = options | coverage._spelled_out(entry, options, dtype)
            chosen = OptionSet(tried.key, spelled, lr=float(group.lr))
            case = cases._case(entry, chosen, name, dtype, cases.STEPS)
            case = replace(case, suite="port", groups=groups)
            if burn_clipping(unit) is not None:
                case = replace(case, burn_clip={"Value": float(unit.clips[0].bound)})
            elif unit.clips:
                case = replace(case, clip=_clip(unit))
            yield case


def _settable(entry: Optimizer) -> set[str]:
    recorded = libraries.recorded()["pytorch"][entry.pytorch]["parameters"]
    return {item["name"] for item in recorded} - {"params", "lr"}


def _clip(unit: Unit) -> dict[str, Any]:
    clip = unit.clips[0]
    if clip.name == "clip_grad_value_":
        return {"scope": "value", "clip_value": float(clip.bound)}
    found: dict[str, Any] = {"scope": "global", "max_norm": float(clip.bound)}
    if clip.norm_type != 2:
        found["norm_type"] = "inf" if clip.norm_type == float("inf") else clip.norm_type
    if clip.error_if_nonfinite:
        found["error_if_nonfinite"] = True
    return found


def _split(unit: Unit, name: str) -> tuple[dict[str, Any], ...] | None:
    """A problem's parameters for each group but the first; None where there are too few."""
    assert unit.ported is not None
    others = unit.ported.groups[1:]
    if not others:
        return ()
    parts = _parts(unit, name)
    if parts is None:
        return None
    return tuple(
        {
            "parameters": [key for key in problem(name).parameters if _within(key, part)],
            "optimizer": unit.ported.entry.pytorch,
            "options": {
                k: plain(v) for k, v in group.options.items() if k in _settable(unit.ported.entry)
            },
            "lr": float(group.lr),
        }
        for group, part in zip(others, parts, strict=True)
    )


def _parts(unit: Unit, name: str) -> list[str] | None:
    """The layer, or the parameter, that stands for each group but the first."""
    assert unit.ported is not None
    count = len(unit.ported.groups)
    names = list(problem(name).parameters)
    layers = list(dict.fromkeys(key.rpartition(".")[0] or key for key in names))
    for found in (layers, names):
        if len(found) >= count:
            return found[1:count]
    return None


def _within(key: str, part: str) -> bool:
    return key == part or key.startswith(f"{part}.")


# The crate


def _module(tried: Tried, dtype: str, name: str) -> tuple[str, str]:
    """A generated module: its name, and its code for a problem's groups."""
    port = tried.ports[dtype]
    unit = tried.of(dtype)
    assert unit.ported is not None
    base = re.sub(r"\W", "_", tried.key)
    narrow = emit.unit_code(tried.of("float32")) if "float32" in tried.ports else None
    suffix = "" if emit.unit_code(unit) == narrow or len(tried.ports) == 1 else "_f64"
    parts = _parts(unit, name) if len(unit.ported.groups) > 1 else []
    if not parts:
        alone = Port(port.source, [unit], port.lost)
        return f"{base}{suffix}", emit.rust_of(alone)
    # The fields of the user's model are not those of the problem.
    groups = [replace(group) for group in unit.ported.groups]
    for group, part in zip(groups[1:], parts, strict=True):
        group.field = part
    moved = replace(unit, ported=replace(unit.ported, groups=groups))
    where = re.sub(r"\W", "_", "_".join(parts))
    return f"{base}_{where}{suffix}", emit.rust_of(Port(port.source, [moved], port.lost))


def _arm(module: str, unit: Unit) -> str:
    """How the program calls a generated module."""
    assert unit.ported is not None
    scheduled = emit.scheduled(unit)
    lbfgs = unit.ported.entry.burn == "LBFGS"
    start = f"let mut schedule = {module}::schedule();" if scheduled else ""
    extra = ""
    if scheduled:
        extra = ", &schedule.step()" if unit.stepped == EPOCH else ", &mut schedule"
    last = "closure" if lbfgs else "grads"
    how = "losses" if lbfgs else "gradients"
    return f"""\
            "{module}" => {{
                {start}
                training.{how}({module}::optimizer(), |model, optimizer, {last}| {{
                    {module}::update(model, optimizer{extra}, {last})
                }})
            }}"""


def write_crate(
    folder: Path, root: Path, modules: Mapping[str, str], units: Mapping[str, Unit]
) -> None:
    """The generated crate: a file for each module, and the program that trains with those of
    ``units``.
    """
    source = folder / "src"
    if source.exists():
        shutil.rmtree(source)
    for name, code in modules.items():
        write_text(source / f"{name}.rs", code)
    declared = "\n".join(f"mod {name};" for name in modules)
    arms = "\n".join(_arm(name, unit) for name, unit in units.items())
    write_text(
        source / "main.rs",
        f"""\
//! Trains with everything that was ported. Generated.
#![allow(dead_code)]

{declared}

use std::process::ExitCode;

use burn::module::Module;
use pitb_port::{{Ported, Training}};

struct Generated;

impl Ported for Generated {{
    fn train<M: Module>(&self, module: &str, training: Training<M>) -> anyhow::Result<()> {{
        match module {{
{arms}
            _ => {{
                drop(training);
                anyhow::bail!("there is no module {{module}}")
            }}
        }}
    }}
}}

fn main() -> ExitCode {{
    pitb_port::main(&Generated)
}}
""",
    )
    write_text(folder / "Cargo.toml", _manifest(folder, root))
    write_text(folder / "Cargo.lock", (root / "Cargo.lock").read_text(encoding="utf-8"))


def program_name(folder: Path) -> str:
    """Of the package and the program of a crate. cargo takes two packages of one name in one
    folder of programs for the same.
    """
    parts = (*folder.absolute().parts[-2:], PACKAGE)
    return re.sub(r"[^A-Za-z0-9_-]", "_", "-".join(parts))


def _manifest(folder: Path, root: Path) -> str:
    name = program_name(folder)
    text = reproductions.manifest(folder, root, [])
    text = text.replace(f'name = "{reproductions.PACKAGE}"', f'name = "{name}"')
    text = text.replace(f"package.{reproductions.PACKAGE}]", f"package.{name}]")
    path = json.dumps(str((root / "crates" / CRATE).resolve()))
    text = text.replace("[dependencies]\n", f"[dependencies]\n{CRATE} = {{ path = {path} }}\n")
    # Quick to build: what they train is small.
    for crate in (CRATE, "pitb-core"):
        text += f"\n[profile.release.package.{crate}]\nopt-level = 0\n"
    return f'{text}\n[[bin]]\nname = "{name}"\npath = "src/main.rs"\n'


def build(folder: Path, target: Path) -> Path:
    """Build the crate; gives its program.

    Raises:
        PitbError: Generated code does not compile, or cargo is not there.
    """
    said = build_generated(folder, target, "the generated code")
    warned = re.findall(r"^warning: (?!`|unused manifest).*", said, re.MULTILINE)
    if warned:
        raise PitbError(f"rustc warns of the generated code: {warned[0]}")
    return target / "release" / program_name(folder)


# Training and judging


def verify(
    tried: Sequence[Tried],
    folder: Path,
    root: Path,
    target: Path,
    problems: Sequence[str] = coverage.PROBLEMS,
    dtypes: Sequence[str] = cases.DTYPES,
) -> list[Verdict]:
    """Train both sides of every port, and judge them.

    Args:
        tried: The ports.
        folder: Where the generated crate and the traces go.
        root: The project, whose burn is used.
        target: Where that burn is built.
        problems: The names of the problems.
        dtypes: The precisions.

    Raises:
        PitbError: Generated code does not compile, or its program fails.
    """
    verdicts = {item.key: Verdict(item.key, UNTRIED, untried(item.of(dtypes[0]))) for item in tried}
    able = [item for item in tried if not verdicts[item.key].reason]
    runs: dict[str, tuple[Tried, Case, str]] = {}
    modules: dict[str, str] = {}
    units: dict[str, Unit] = {}
    for item in able:
        for case in cases_of(item, problems, dtypes):
            module, code = _module(item, case.dtype, case.problem)
            modules[module], units[module] = code, item.of(case.dtype)
            runs[case.name] = (item, case, module)
    if not runs:
        return list(verdicts.values())
    write_crate(folder, root, modules, units)
    plan = _plan(runs)
    program = build(folder, target)
    traces = folder / "traces"
    if traces.exists():
        shutil.rmtree(traces)
    _train_burn(program, folder, plan, runs)
    _train_pytorch(plan, traces)
    # A port makes burn's optimizer whole, whose states are then not to be seen.
    judge = Judge(plan, traces, states=False)
    outcomes: dict[str, list[tuple[Outcome, list[str]]]] = {}
    for name, entry in plan["cases"].items():
        item, _, _ = runs[name]
        found = outcomes.setdefault(item.key, [])
        for outcome in judge.outcomes(entry):
            found.append((outcome, _because(judge, entry, outcome)))
        list(judge.references())
    for key, found in outcomes.items():
        verdicts[key] = _verdict(key, found)
    return list(verdicts.values())


def _plan(runs: Mapping[str, tuple[Tried, Case, str]]) -> dict[str, Any]:
    from pitb.breadth.plan import plan

    made = plan((case for _, case, _ in runs.values()), libraries.recorded()["burn"])
    for name, entry in made["cases"].items():
        item, case, _ = runs[name]
        unit = item.of(case.dtype)
        if IMPOSSIBLE in entry["burn"]:
            # The list of names cannot say it, the generated code does.
            entry["burn"] = {"id": f"burn/{name}"}
        if unit.ported is not None and unit.ported.call.name != case.optimizer:
            # Adam with decoupled decay, which is AdamW: PyTorch trains what is asked for.
            options = {**entry["pytorch"]["options"], "decoupled_weight_decay": True}
            entry["pytorch"] |= {"optimizer": unit.ported.call.name, "options": options}
        if unit.schedules:
            _schedule(entry, unit, case)
    return made


def _schedule(entry: dict[str, Any], unit: Unit, case: Case) -> None:
    """The schedule of a case, which is none of those that are known by name."""
    node = _trainable(unit.node)
    config = unit.schedules[0]
    known = schedulers.Case(case.name, case.steps, [case.lr], config, node)
    for side in ("pytorch", "burn"):
        outcome = schedulers.reference_rates(known, side)
        assert outcome is not None
        entry["rates"][side] = list(outcome.rates)
    entry["pytorch"]["scheduler"] = node


def _trainable(node: Config) -> Config:
    """A schedule whose functions are known by name."""
    found = dict(node)
    if "schedulers" in found:
        found["schedulers"] = [_trainable(child) for child in found["schedulers"]]
    given = found.get("lr_lambda")
    if isinstance(given, list) and given[0] == "power":
        return {"class": "ExponentialLR", "gamma": given[1]}
    return found


def _train_burn(
    program: Path, folder: Path, plan: Mapping[str, Any], runs: Mapping[str, Any]
) -> None:
    specs = [
        {
            "id": f"burn/{name}",
            "module": module,
            "problem": case.problem,
            "dtype": case.dtype,
            "steps": case.steps,
            "frozen": list(case.frozen),
        }
        for name, (_, case, module) in runs.items()
    ]
    batch = folder / "runs.json"
    write_json(batch, {"problems": plan["problems"], "runs": specs}, indent=None)
    ended = programs.captured([program, batch, folder / "traces"], "the generated program")
    if ended.returncode:
        raise PitbError(f"the generated program fails: {' '.join(ended.stderr.split())}")


def _train_pytorch(plan: Mapping[str, Any], traces: Path) -> None:
    import torch

    from pitb import pytorch

    torch.set_num_threads(1)
    specs = [e["pytorch"] for e in plan["cases"].values() if IMPOSSIBLE not in e["pytorch"]]
    pytorch.train_all(specs, traces)


def _because(judge: Judge, entry: dict[str, Any], outcome: Outcome) -> list[str]:
    from pitb.breadth.explain import UNEXPLAINED, explain

    if outcome.pair != "pytorch--burn" or outcome.verdict not in (MISMATCH, ERROR):
        return []
    kind, because = explain(judge, entry, outcome)
    return [] if kind == UNEXPLAINED else because


def _verdict(key: str, outcomes: Sequence[tuple[Outcome, list[str]]]) -> Verdict:
    found = Verdict(key, SAME)
    choices: dict[str, None] = {}
    told = False
    for outcome, because in outcomes:
        across = outcome.pair == "pytorch--burn"
        found.cases += across
        found.same += across and outcome.verdict == OK and _tells(outcome)
        told |= outcome.pair == "burn--reference" and outcome.verdict == OK and _tells(outcome)
        choices |= dict.fromkeys(because)
        wrong = outcome.verdict in (MISMATCH, ERROR, IMPOSSIBLE)
        if wrong and not because and found.status != DIFFERS:
            found.status, found.reason = DIFFERS, first_difference(outcome)
    found.choices = list(choices)
    if found.status == DIFFERS:
        return found
    if not told:
        return replace(found, status=UNTRIED, reason="no run moves far enough to tell anything")
    if not found.same:
        found.status = EQUATION
        if not choices:
            found.reason = "burn does what is asked of it, and no run tells the libraries apart"
    if choices:
        found.status = EQUATION
    return found


def _tells(outcome: Outcome) -> bool:
    """Whether a run moves its parameters by much more than the tolerance."""
    return any(row.moved >= TELLS for row in outcome.rows if row.quantity == "param")


def first_difference(outcome: Outcome) -> str:
    """Where two traces of a case part, in words."""
    at = f"{outcome.case.problem} in {outcome.case.dtype}, {outcome.pair.replace('--', ' and ')}"
    for row in outcome.rows:
        if row.verdict == MISMATCH:
            return (
                f"{at}: {row.quantity} {row.tensor}[{row.index}] at step {row.step} is {row.a!r} "
                f"and {row.b!r}, {row.needed:.1e} apart relatively, where {row.tolerance:.1e} is "
                "allowed"
            )
    return f"{at}: {outcome.reason or outcome.verdict}"
