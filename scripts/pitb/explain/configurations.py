"""One side's configuration, every option by PyTorch's name, whatever library it is of.

``spec`` is a run as the configuration file or a trace's metadata has it. The names and defaults
come from the registry and from the record of both libraries; neither library is imported.
"""

from dataclasses import dataclass

from pitb import a1
from pitb.breadth.cases import DTYPES, Case
from pitb.errors import PitbError, nearest
from pitb.explain.members import Member, Spec, check_keys, checked_clip, member_of, number
from pitb.registry import Options

SIDES = ("pytorch", "burn")
STEPS = 10
"""Updates where nobody says how many."""
MOST_STEPS = 100_000
"""Updates that can be explained; of the small problem A1 they then take some 4 GB."""
KEYS = (
    "side",
    "optimizer",
    "options",
    "lr",
    "steps",
    "problem",
    "dtype",
    "clip",
    "groups",
    "frozen",
    "accumulate",
    "scheduler",
    "rates",
    "resume_step",
    "clipping_by",
    "initial_state",
)
"""What a run can say of itself."""


@dataclass(frozen=True)
class Configuration:
    """What one side trains."""

    label: str
    side: str
    member: Member
    steps: int
    problem: str
    dtype: str
    clip: Options | None = None
    """Clipping by the training loop."""
    groups: tuple[Member, ...] = ()
    frozen: tuple[str, ...] = ()
    accumulate: int = 1
    rates: tuple[float, ...] = ()
    """The rate of each update, where a schedule makes it."""
    resume_step: int = 0
    initial_state: str = "float64"

    def case(self) -> Case:
        """As the breadth has it, whose laws and descriptions then hold for it."""
        return Case(
            optimizer=self.member.entry.pytorch,
            set="explain",
            problem=self.problem,
            dtype=self.dtype,
            lr=self.member.lr,
            options=self.member.options,
            steps=self.steps,
            accumulate=self.accumulate,
        )


def configuration(spec: Spec, label: str, where: str = "") -> Configuration:
    """Resolve a run.

    Args:
        spec: ``side``, ``optimizer``, ``lr`` and whatever else of `KEYS`.
        label: How reports call it.
        where: What a message begins with, where that is not the label.

    Raises:
        PitbError: A key, an optimizer, an option or a value is not known; names the nearest.
    """
    try:
        return _configuration(spec, label)
    except PitbError as error:
        raise PitbError(f"{where or label}: {error}") from None


def _configuration(spec: Spec, label: str) -> Configuration:
    check_keys(spec, KEYS, "a run")
    side = spec.get("side")
    if side not in SIDES:
        near = nearest(str(side), SIDES)
        raise PitbError(f"side is {side!r}; allowed: {', '.join(SIDES)} (nearest: {near})")
    steps = _whole(spec, "steps", STEPS)
    if steps > MOST_STEPS:
        told = f"steps is {spec['steps']!r}, but every step of every run is held"
        raise PitbError(f"{told}: up to {MOST_STEPS} of them")
    dtype = spec.get("dtype", DTYPES[0])
    if dtype not in DTYPES:
        near = nearest(str(dtype), DTYPES)
        raise PitbError(f"dtype is {dtype!r}; allowed: {', '.join(DTYPES)} (nearest: {near})")
    rates = _rates(spec, side, steps)
    lr = spec.get("lr")
    if lr is None and rates:
        lr = rates[0]
    late = spec.get("clipping_by") == "late"
    member = member_of(side, {**spec, "lr": lr}, dtype, late)
    clip = spec.get("clip")
    return Configuration(
        label=label,
        side=side,
        member=member,
        steps=steps,
        problem=str(spec.get("problem") or a1.NAME),
        dtype=dtype,
        clip=None if clip is None else checked_clip(clip),
        groups=tuple(member_of(side, group, dtype) for group in spec.get("groups") or ()),
        frozen=_names(spec, "frozen"),
        accumulate=_whole(spec, "accumulate", 1),
        rates=rates,
        resume_step=_whole(spec, "resume_step", 0, least=0),
        initial_state=str(spec.get("initial_state", "float64")),
    )


def _whole(spec: Spec, key: str, default: int, least: int = 1) -> int:
    value = spec.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value % 1 != 0:
        raise PitbError(f"{key} is {value!r}, not a whole number")
    if value < least:
        raise PitbError(f"{key} is {value!r}, but must be {least} or more")
    return int(value)


def _names(spec: Spec, key: str) -> tuple[str, ...]:
    value = spec.get(key) or []
    if not isinstance(value, (list, tuple)) or not all(isinstance(name, str) for name in value):
        raise PitbError(f"{key} is {value!r}, not a list of parameters' names")
    return tuple(value)


def _rates(spec: Spec, side: str, steps: int) -> tuple[float, ...]:
    """The rates of a schedule: as given, or as the description of the side's scheduler has them."""
    if spec.get("rates"):
        if len(spec["rates"]) < steps:
            raise PitbError(f"rates has {len(spec['rates'])} values for {steps} steps")
        return tuple(number(rate, "rates") for rate in spec["rates"][:steps])
    if not spec.get("scheduler"):
        return ()
    from pitb import schedulers

    base = [number(spec["lr"], "lr")] if spec.get("lr") is not None else [1.0]
    nodes = {name: spec["scheduler"] if name == side else None for name in SIDES}
    try:
        outcome = schedulers.reference_rates(
            schedulers.Case("explain", steps, base, nodes["burn"], nodes["pytorch"]), side
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise PitbError(f"scheduler is not one of {side}'s: {error}") from None
    if outcome is None or outcome.error:
        reason = outcome.error if outcome is not None else "there is no description of it"
        raise PitbError(f"scheduler cannot be used: {reason}")
    return outcome.rates
