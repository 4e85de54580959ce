"""How much of both libraries is covered: PyTorch's own list of optimizer configurations and its
constructors' options on one side, the fields of burn's configurations on the other.

PyTorch keeps the list for its own tests (``torch.testing._internal.common_optimizers``); it is read
when it is needed, so that a version which adds to it is not believed covered.
"""

import inspect
import json
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from pitb.breadth import cases
from pitb.breadth.cases import Case, Options, OptionSet
from pitb.breadth.covered import Field, Row
from pitb.breadth.phases import IMPOSSIBLE, Plan
from pitb.breadth.plan import pytorch_spec
from pitb.defaults import as_f32
from pitb.errors import PitbError
from pitb.registry import IMPLEMENTATION, Optimizer, by_pytorch_name, optimizers, plain

COVERED, NO_COUNTERPART, MISSING = "covered", "no-counterpart", "missing"
STATUSES = (COVERED, IMPOSSIBLE, NO_COUNTERPART, MISSING)
SUITE = "coverage"
PROBLEMS = ("a1", "gradients")
SIDES = ("pytorch", "burn")
UNJUDGED = (IMPOSSIBLE, "error")
"""Verdicts of pairs that were not both trained to the end."""

_UNSET = "unset"
_PARTS: dict[str, tuple[str, ...]] = {
    "weight_decay": ("penalty",),
    "grad_clipping": ("Norm", "Value"),
    "gradient_clipping": ("Norm", "Value"),
}
"""What burn's optional fields take where they are not null; each is a field of its own here."""
_FILLERS = ("non", "default", "nonzero", "zero", "w", "with", "passing", "alternative")
"""Words of PyTorch's descriptions that distinguish nothing, ``non-default lr``."""

Refusal = Callable[[str, Options], str | None]
"""What burn says to options of its optimizer of that name; None where it takes them."""


@dataclass(frozen=True)
class Configuration:
    """One of PyTorch's list."""

    optimizer: str
    desc: str
    """PyTorch's words."""
    kwargs: Options
    """Of the constructor, with numbers for tensors and lists for tuples."""
    tensors: tuple[str, ...] = ()
    """Which of them are tensors in PyTorch's list."""


@cache
def configurations() -> tuple[Configuration, ...]:
    """PyTorch's list for the CPU, in its order; importing it takes seconds.

    Raises:
        PitbError: It has configurations of a kind that it had none of.
    """
    from torch.testing._internal.common_optimizers import optim_db

    found = []
    for info in optim_db:
        for given in info.optim_inputs_func(device="cpu"):
            name = info.optim_cls.__name__
            if given.params is not None:
                raise PitbError(f"{name}, {given.desc}: has parameter groups, which none had")
            tensors = tuple(key for key, value in given.kwargs.items() if hasattr(value, "dtype"))
            found.append(Configuration(name, given.desc, plain(dict(given.kwargs)), tensors))
    return tuple(found)


def set_names(found: Sequence[Configuration]) -> list[str]:
    """A name for each configuration of one optimizer, of letters, digits and -.

    It says what PyTorch's description says and depends on no later one.
    """
    names: list[str] = []
    for item in found:
        words = re.findall(r"[a-z0-9]+", item.desc.lower())
        slug = "-".join(word for word in words if word not in _FILLERS) or "default"
        if f"cov-{slug}" in names:
            slug = "-".join([slug, *re.findall(r"[a-z0-9]+", " ".join(item.kwargs).lower())])
        name, count = f"cov-{slug}", 1
        while name in names:
            count += 1
            name = f"cov-{slug}-{count}"
        names.append(name)
    return names


@cache
def assigned() -> tuple[tuple[Configuration, tuple[Case, ...]], ...]:
    """Every configuration with its cases: none where the optimizer has no counterpart, and the same
    ones for configurations that come to the same.
    """
    known = {entry.pytorch: entry for entry in optimizers()}
    of_one: dict[str, list[Configuration]] = {}
    for item in configurations():
        of_one.setdefault(item.optimizer, []).append(item)
    found: dict[tuple[str, int], tuple[Case, ...]] = {}
    for name, items in of_one.items():
        made: list[tuple[Options, tuple[Case, ...]]] = []
        for i, (item, set_name) in enumerate(zip(items, set_names(items), strict=True)):
            entry = known.get(name)
            if entry is None:
                found[name, i] = ()
                continue
            resolved = entry.resolved(item.kwargs)
            same = [those for options, those in made if options == resolved]
            found[name, i] = same[0] if same else tuple(_cases(entry, set_name, item.kwargs))
            made.append((resolved, found[name, i]))
    # In PyTorch's order.
    seen: Counter[str] = Counter()
    rows = []
    for item in configurations():
        rows.append((item, found[item.optimizer, seen[item.optimizer]]))
        seen[item.optimizer] += 1
    return tuple(rows)


def coverage_cases() -> Iterator[Case]:
    """A case for every configuration of PyTorch's list, problem and precision, and for every switch
    of PyTorch's implementation that works here; each once.
    """
    names = set()
    switched = [case for found, _ in _switches().values() for case in found]
    for case in (*(case for _, found in assigned() for case in found), *switched):
        if case.name not in names:
            names.add(case.name)
            yield case


def _cases(entry: Optimizer, set_name: str, kwargs: Options) -> Iterator[Case]:
    lr = kwargs.get("lr", entry.defaults()["lr"])
    # L-BFGS that maximizes a loss without a maximum has left every scale after one update.
    unbounded = entry.pytorch in cases.NEEDS_LOSS and kwargs.get("maximize", False)
    steps = 1 if unbounded else cases.STEPS
    for name in PROBLEMS:
        if not cases._takes(entry, name):
            continue
        for dtype in cases.DTYPES:
            options = {key: value for key, value in kwargs.items() if key != "lr"}
            chosen = OptionSet(set_name, options | _spelled_out(entry, kwargs, dtype), lr=lr)
            case = cases._case(entry, chosen, name, dtype, steps)
            yield replace(case, suite=SUITE)


def _spelled_out(entry: Optimizer, options: Options, dtype: str) -> Options:
    """PyTorch's options whose None stands for a number that burn can be given.

    That is the epsilon of Adafactor's: PyTorch puts the dtype's in its place.
    """
    if entry.pytorch != "Adafactor":
        return {}
    first, second = entry.resolved(options)["eps"]
    return {"eps": [float(np.finfo(dtype).eps), second]} if first is None else {}


@cache
def _switches() -> Mapping[tuple[str, str], tuple[tuple[Case, ...], str]]:
    """For every optimizer and switch: the cases that have it on, or what PyTorch says to it."""
    from pitb import pytorch

    found = {}
    for entry in optimizers():
        for switch in IMPLEMENTATION:
            if switch not in inspect.signature(entry.constructor()).parameters:
                continue
            options = {switch: True, **entry.neutral}
            options["lr"] = cases.RATES[entry.pytorch]
            tried = tuple(_cases(entry, f"cov-{switch}", options))
            # A constructor may take what a step refuses, so it is a step that is tried.
            errors = [pytorch.train({**pytorch_spec(case), "steps": 1}).error for case in tried]
            refusals = list(dict.fromkeys(error for error in errors if error is not None))
            works = tuple(case for case, error in zip(tried, errors, strict=True) if error is None)
            found[entry.pytorch, switch] = (works, "; ".join(refusals))
    return found


class Refusals:
    """Asks burn's program whether it takes options, each once."""

    def __init__(self, program: Path) -> None:
        """Of ``program``, ``target/release/optdef``."""
        self.program = program
        self._known: dict[str, str | None] = {}

    def __call__(self, optimizer: str, options: Options) -> str | None:
        """What it says to ``options`` of burn's ``optimizer``; None where it takes them.

        Raises:
            PitbError: The program is not there, failed otherwise, or refuses also the optimizer
                without options, so that its refusal says nothing of them.
        """
        if options and self(optimizer, {}) is not None:
            raise PitbError(f"burn refuses {optimizer} whatever its options: {self(optimizer, {})}")
        key = json.dumps([optimizer, options], sort_keys=True)
        if key not in self._known:
            self._known[key] = self._ask(optimizer, options)
        return self._known[key]

    def _ask(self, optimizer: str, options: Options) -> str | None:
        spec = {"id": "burn/try", "optimizer": optimizer, "options": options, "lr": 0.1, "steps": 1}
        with tempfile.TemporaryDirectory() as folder:
            runs = Path(folder) / "runs.json"
            runs.write_text(json.dumps({"runs": [spec]}), encoding="utf-8")
            try:
                ended = subprocess.run(
                    [self.program, "--runs", runs, "--traces", Path(folder) / "traces"],
                    capture_output=True,
                    text=True,
                    encoding="utf-8",
                    check=False,
                )
            except OSError:
                raise PitbError(f"{self.program} cannot be run; build it with make") from None
        if ended.returncode == 0:
            return None
        _, mark, sentence = ended.stderr.strip().partition("error: run burn/try: ")
        if not mark:
            raise PitbError(f"{self.program} failed on {optimizer} {options}: {ended.stderr}")
        return sentence


def coverage(
    plan: Plan,
    outcomes: Mapping[str, Mapping[str, str]],
    refusal: Refusal,
    defaults: Mapping[str, Any],
) -> list[Row]:
    """One row for each configuration of PyTorch's list, in its order.

    Args:
        plan: Of all cases, as :func:`pitb.breadth.plan.plan` makes it.
        outcomes: For each case's name the verdicts of its pairs, ``pytorch--reference`` and so on.
        refusal: Tries what burn is said not to do, :class:`Refusals`.
        defaults: What ``optdef --defaults`` prints.

    Raises:
        PitbError: The list of optimizers and burn's own have not the same ones of burn's.
    """
    burns = [str(config["optimizer"]) for config in defaults.values() if "optimizer" in config]
    listed = [entry.burn for entry in optimizers()]
    for a, b, words in (
        (burns, listed, "the list of names lacks burn's"),
        (listed, burns, "burn has no"),
    ):
        if lacking := [name for name in a if name not in b]:
            raise PitbError(f"{words} {', '.join(lacking)}")
    judge = _Judge(plan, outcomes, refusal, burns)
    return [
        Row(
            item.optimizer,
            item.desc,
            shown(item.kwargs),
            *judge.status(item, found),
            tuple(case.name for case in found),
        )
        for item, found in assigned()
    ]


@dataclass(frozen=True)
class _Judge:
    plan: Plan
    outcomes: Mapping[str, Mapping[str, str]]
    refusal: Refusal
    burns: Sequence[str]

    def status(self, item: Configuration, found: Sequence[Case]) -> tuple[str, str]:
        """Status and reason of a configuration with its cases."""
        if not found:
            same = [name for name in self.burns if name.lower() == item.optimizer.lower()]
            if same:
                return MISSING, f"burn has {same[0]}, and no case is for it"
            return NO_COUNTERPART, f"burn has no {item.optimizer}, only {', '.join(self.burns)}"
        planned = self.plan["cases"]
        if absent := [case.name for case in found if case.name not in planned]:
            return MISSING, f"not planned: {', '.join(absent)}"
        changed = [case.name for case in found if not _is_planned(case, planned[case.name]["case"])]
        if changed:
            return MISSING, f"planned with other options: {', '.join(changed)}"
        entries = {case.name: planned[case.name] for case in found}
        refused = {
            entry["pytorch"][IMPOSSIBLE]: None
            for entry in entries.values()
            if IMPOSSIBLE in entry["pytorch"]
        }
        if refused:  # PyTorch's own words: the plan has them from its constructor
            return IMPOSSIBLE, f"PyTorch refuses it: {'; '.join(refused)}"
        optimizer = by_pytorch_name(item.optimizer)
        beyond: dict[str, Options] = {}
        for case in found:
            options = optimizer.beyond_burn(optimizer.resolved(case.options))
            beyond |= {shown({key: value}): {key: value} for key, value in options.items()}
        said = {text: self.refusal(optimizer.burn, options) for text, options in beyond.items()}
        if taken := [text for text, sentence in said.items() if sentence is None]:
            return MISSING, f"burn's {optimizer.burn} takes {', '.join(taken)}, which no case tries"
        sides = SIDES[:1] if beyond else SIDES
        if reason := self._unjudged(entries, sides):
            return MISSING, reason
        if beyond:
            words = "; ".join(f"{text}: {sentence}" for text, sentence in said.items())
            return IMPOSSIBLE, f"burn refuses {words}"
        return COVERED, self._in_other_words(optimizer, item)

    def _unjudged(self, entries: Mapping[str, Any], sides: Sequence[str]) -> str:
        for name, entry in entries.items():
            for side in sides:
                if IMPOSSIBLE in entry[side]:
                    return f"{side} of {name} is planned as impossible: {entry[side][IMPOSSIBLE]}"
                verdict = self.outcomes.get(name, {}).get(f"{side}--reference")
                if verdict is None or verdict in UNJUDGED:
                    return f"{side} of {name} was not judged: {verdict or 'no verdict'}"
        return ""

    def _in_other_words(self, optimizer: Optimizer, item: Configuration) -> str:
        words = [f"{name} is given as the number that the tensor holds" for name in item.tensors]
        beyond = optimizer.beyond_burn(optimizer.resolved(item.kwargs))
        for key, value in beyond.items():
            option = shown({key: value})
            words.append(
                f"burn refuses {option}: {self.refusal(optimizer.burn, {key: value})}; both sides "
                "are given the number that None stands for in PyTorch, the epsilon of the dtype"
            )
        return "; ".join(words)


def _is_planned(case: Case, planned: Mapping[str, Any]) -> bool:
    wanted = json.loads(json.dumps(asdict(case)))
    found = json.loads(json.dumps(planned))
    return all(found.get(key) == value for key, value in wanted.items())


def shown(options: Options) -> str:
    """Options as text, ``betas=[0.9, 0.99], amsgrad=true``."""
    return ", ".join(f"{key}={json.dumps(value)}" for key, value in options.items())


def totals(rows: Iterable[Row | Field]) -> dict[str, int]:
    """How many have each status."""
    counted = Counter(row.status for row in rows)
    return {status: counted[status] for status in STATUSES}


def check(rows: Sequence[Row], fields: Sequence[Field] = ()) -> None:
    """That there is a row for each configuration, and that nothing is missing.

    Raises:
        PitbError: Something is; names it.
    """
    expected = [(item.optimizer, item.desc, shown(item.kwargs)) for item in configurations()]
    if [(row.optimizer, row.desc, row.kwargs) for row in rows] != expected:
        raise PitbError(f"{len(rows)} rows are not those of PyTorch's {len(expected)}")
    counted = [*totals(rows).values(), *totals(fields).values()]
    if sum(counted) != len(rows) + len(fields):
        raise PitbError(f"{sum(counted)} of {len(rows) + len(fields)} have a status that is known")
    lacking = [
        f"{row.optimizer} {row.desc!r} ({row.kwargs}): {row.reason}"
        for row in rows
        if row.status == MISSING
    ]
    lacking += [f"{f.owner} {f.name}: {f.reason}" for f in fields if f.status == MISSING]
    if lacking:
        raise PitbError(f"{len(lacking)} are not covered: {' | '.join(lacking)}")


def burn_fields(defaults: Mapping[str, Any], specs: Iterable[Mapping[str, Any]]) -> list[Field]:
    """Every field of every configuration of burn's, with the runs that set it to another value.

    A field that is null and has parts counts beside each of them: ``weight_decay`` and
    ``weight_decay.penalty``.

    Args:
        defaults: What ``optdef --defaults`` prints.
        specs: burn's specifications, as plans have them; those that are impossible do not count.
    """
    values = _values(specs)
    found = []
    for config, entry in defaults.items():
        if "optimizer" not in entry:
            continue  # a part, whose fields are counted where it is used
        for path, default in _paths(entry["fields"], defaults).items():
            names = [
                name
                for name, options in values.get(entry["optimizer"], [])
                if not _same(_at(options, path), default)
            ]
            found.append(_field(config, path, default, names))
    return found


def pytorch_options(specs: Iterable[Mapping[str, Any]]) -> list[Field]:
    """Every option of PyTorch's constructors, with the runs that set it to another value.

    A switch of the implementation that does not work here is impossible, in PyTorch's words.

    Args:
        specs: PyTorch's specifications, as plans have them.
    """
    values = _values(specs)
    found = []
    for entry in optimizers():
        for option, parameter in list(inspect.signature(entry.constructor()).parameters.items())[
            1:
        ]:
            default = plain(parameter.default)
            names = [
                name
                for name, options in values.get(entry.pytorch, [])
                if not _same(options.get(option, _UNSET), default)
            ]
            _, refusal = _switches().get((entry.pytorch, option), ((), ""))
            found.append(_field(entry.pytorch, option, default, names, refusal))
    return found


def _values(specs: Iterable[Mapping[str, Any]]) -> dict[str, list[tuple[str, Options]]]:
    """For each optimizer the names of the runs and the options that they set, the rate too."""
    found: dict[str, list[tuple[str, Options]]] = {}
    for spec in specs:
        if IMPOSSIBLE in spec:
            continue
        for group in (spec, *(spec.get("groups") or ())):
            options = dict(group.get("options") or {})
            if group.get("lr") is not None:
                options["lr"] = group["lr"]
            name = str(spec["id"]).partition("/")[2]
            found.setdefault(group["optimizer"], []).append((name, options))
    return found


def _field(owner: str, name: str, default: Any, names: Sequence[str], refusal: str = "") -> Field:
    text = _UNSET if default == _UNSET else json.dumps(default)
    if names:
        return Field(owner, name, text, COVERED, "", tuple(dict.fromkeys(names)))
    if refusal:
        return Field(owner, name, text, IMPOSSIBLE, f"PyTorch refuses it here: {refusal}", ())
    return Field(owner, name, text, MISSING, f"no case sets it to another value than {text}", ())


def _paths(fields: Mapping[str, Any], defaults: Mapping[str, Any]) -> Options:
    """Every field's path and default, those of parts too."""
    found: Options = {}
    for name, default in fields.items():
        if isinstance(default, dict):
            found |= {f"{name}.{part}": value for part, value in default.items()}
            continue
        found[name] = default
        if default is not None:
            continue
        part_config = defaults.get(f"{name.title()}Config", {})
        parts = part_config.get("fields", dict.fromkeys(_PARTS.get(name, ()), _UNSET))
        found |= {f"{name}.{part}": value for part, value in parts.items()}
    return found


def _at(options: Options, path: str) -> Any:
    """The value at a path; unset where the options do not reach it."""
    found: Any = options
    for part in path.split("."):
        if not isinstance(found, dict) or part not in found:
            return _UNSET
        found = found[part]
    return found


def _same(value: Any, default: Any) -> bool:
    """Whether setting ``value`` leaves a field at its default, as far as f32 can tell."""
    value = plain(value)
    if value == _UNSET:
        return True
    if isinstance(value, list) and isinstance(default, list):
        return len(value) == len(default) and all(map(_same, value, default))
    numbers = [isinstance(x, (int, float)) and not isinstance(x, bool) for x in (value, default)]
    if all(numbers):
        return as_f32(float(value)) == as_f32(float(default))
    return bool(value == default) and numbers[0] == numbers[1]
