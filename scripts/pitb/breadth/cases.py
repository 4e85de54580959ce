"""The cases: which optimizer, with which options, on which problem, in which precision.

Options have PyTorch's names; what PyTorch lacks has burn's, and stands apart. An option set is one
way to configure an optimizer; every set is tried on every problem that the optimizer can take.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from pitb.problems import names, problem
from pitb.registry import Optimizer, by_pytorch_name, optimizers

Options = dict[str, Any]
LONG = 200
"""Steps where drift shows."""
STEPS = 10
REPORTED = (1, 2, STEPS, LONG)
"""The steps that are compared."""
DTYPES = ("float32", "float64")


@dataclass(frozen=True)
class OptionSet:
    """One way to configure an optimizer."""

    name: str
    options: Options = field(default_factory=dict)
    """By PyTorch's names; the others are at PyTorch's defaults."""
    burn: Options = field(default_factory=dict)
    """Fields that burn alone has."""
    lr: float | None = None
    """Other than the optimizer's usual one."""
    long: bool = False
    """Whether it is also trained long."""
    problems: tuple[str, ...] = ()
    """Those it is tried on, where not on all."""
    dtypes: tuple[str, ...] = DTYPES


@dataclass(frozen=True)
class Case:
    """One training, on every side."""

    optimizer: str
    """PyTorch's name."""
    set: str
    problem: str
    dtype: str
    lr: float
    options: Options = field(default_factory=dict)
    burn: Options = field(default_factory=dict)
    steps: int = STEPS
    frozen: tuple[str, ...] = ()
    clip: Options | None = None
    """Clipping by the training loop."""
    burn_clip: Options | None = None
    """burn's own clipping of each tensor, ``{"Norm": 0.1}``; in PyTorch the loop does it."""
    clipping_by: str = "builder"
    """Which of burn's ways sets it."""
    groups: tuple[Options, ...] = ()
    """Parameters with settings of their own: ``parameters``, ``optimizer``, ``options``, ``lr``."""
    accumulate: int = 1
    resume_step: int = 0
    """After how many updates the run is taken up by a new process; 0 for never."""
    schedule: str = ""
    """The case of :mod:`pitb.schedulers` that makes the rates."""
    left: tuple[str, ...] = ()
    """Hyper-parameters that each side has at its own default."""
    observe: bool = True
    """Whether anything but the first and the last parameters is recorded."""
    suite: str = "options"

    @property
    def twin(self) -> str:
        """The name of the case that must end in the same bits; empty where there is none."""
        if self.resume_step or not self.observe:
            chosen = self.set.partition("-")[2]
            return replace(self, set=chosen, resume_step=0, observe=True).name
        return ""

    @property
    def name(self) -> str:
        """Letters, digits, - and _, as a run's name is."""
        parts = [self.optimizer.lower(), self.set, self.problem, self.dtype.replace("float", "f")]
        if self.steps != STEPS:
            parts.append(str(self.steps))
        return "_".join(parts)

    @property
    def own_clip(self) -> Options | None:
        """What burn's optimizer clips, as PyTorch's training loop does it."""
        if self.burn_clip is None:
            return None
        ((kind, limit),) = self.burn_clip.items()
        how = (
            {"scope": "value", "clip_value": limit}
            if kind == "Value"
            else {"scope": "per-parameter", "max_norm": limit}
        )
        return how | ({"first_step": 2} if self.clipping_by == "late" else {})

    @property
    def entry(self) -> Optimizer:
        """Its line of the list of optimizers."""
        return by_pytorch_name(self.optimizer)


RATES = {
    "SGD": 0.1,
    "Adam": 0.01,
    "AdamW": 0.01,
    "RMSprop": 0.01,
    "Adagrad": 0.1,
    "Adafactor": 0.02,
    "Muon": 0.02,
    "LBFGS": 0.5,
    "Lion": 0.003,
    "Lamb": 0.01,
    "Adan": 0.01,
}
"""Usual rates, at which every optimizer moves and none diverges on A1."""
PROBLEM_RATES = {("SGD", "rosenbrock"): 1e-4, ("SGD", "quadratic"): 0.02}
"""Where the usual rate would diverge, so that rounding errors grew without bound."""

SETS: dict[str, tuple[OptionSet, ...]] = {
    "SGD": (
        OptionSet("plain"),
        OptionSet("momentum", {"momentum": 0.9}, long=True),
        OptionSet("dampening", {"momentum": 0.9, "dampening": 0.3}),
        OptionSet("nesterov", {"momentum": 0.9, "nesterov": True}),
        OptionSet("decay", {"weight_decay": 0.1}),
        OptionSet("momentum-decay", {"momentum": 0.9, "weight_decay": 0.1}),
        OptionSet("nesterov-decay", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
        OptionSet("dampening-decay", {"momentum": 0.5, "dampening": 0.3, "weight_decay": 0.1}),
        OptionSet("nesterov-dampening", {"momentum": 0.9, "dampening": 0.3, "nesterov": True}),
        OptionSet("maximize", {"maximize": True}),
    ),
    "Adam": (
        OptionSet("default", long=True),
        OptionSet("betas", {"betas": [0.8, 0.95]}),
        OptionSet("beta-zero", {"betas": [0.0, 0.9]}),
        OptionSet("eps", {"eps": 1e-3}),
        OptionSet("decay", {"weight_decay": 0.1}),
        OptionSet("amsgrad", {"amsgrad": True, "betas": [0.9, 0.9]}),
        OptionSet("amsgrad-decay", {"amsgrad": True, "betas": [0.9, 0.9], "weight_decay": 0.1}),
        OptionSet("eps-decay", {"eps": 1e-2, "weight_decay": 0.1}),
        OptionSet("maximize", {"maximize": True}),
        OptionSet("decoupled", {"decoupled_weight_decay": True, "weight_decay": 0.1}),
    ),
    "AdamW": (
        OptionSet("default", long=True),
        OptionSet("betas", {"betas": [0.8, 0.95]}),
        OptionSet("eps", {"eps": 1e-3}),
        OptionSet("no-decay", {"weight_decay": 0.0}),
        OptionSet("decay", {"weight_decay": 0.3}),
        OptionSet("amsgrad", {"amsgrad": True, "betas": [0.9, 0.9]}),
        OptionSet("amsgrad-eps", {"amsgrad": True, "betas": [0.9, 0.9], "eps": 1e-3}),
        OptionSet("maximize", {"maximize": True}),
        OptionSet("cautious", {"weight_decay": 0.3}, {"cautious_weight_decay": True}),
    ),
    "RMSprop": (
        OptionSet("default", long=True),
        OptionSet("alpha", {"alpha": 0.9}),
        OptionSet("eps", {"eps": 1e-3}),
        OptionSet("momentum", {"momentum": 0.9}),
        OptionSet("centered", {"centered": True}),
        OptionSet("decay", {"weight_decay": 0.1}),
        OptionSet("centered-momentum", {"centered": True, "momentum": 0.5}),
        OptionSet(
            "everything",
            {"centered": True, "momentum": 0.5, "weight_decay": 0.1, "alpha": 0.9, "eps": 1e-4},
        ),
        OptionSet("maximize", {"maximize": True}),
    ),
    "Adagrad": (
        OptionSet("default", long=True),
        OptionSet("lr-decay", {"lr_decay": 0.1}),
        OptionSet("eps", {"eps": 1e-3}),
        OptionSet("decay", {"weight_decay": 0.1}),
        OptionSet("lr-decay-decay", {"lr_decay": 0.5, "weight_decay": 0.1, "eps": 1e-4}),
        OptionSet("accumulator", {"initial_accumulator_value": 0.5}),
        OptionSet("maximize", {"maximize": True}),
    ),
    "Adafactor": (
        OptionSet("default", {"eps": [1e-30, 1e-3]}, long=True),
        OptionSet("own-eps"),
        OptionSet("fast", {"eps": [1e-30, 1e-3]}, lr=2.0),
        OptionSet("eps1", {"eps": [1e-2, 1e-3]}),
        OptionSet("eps2", {"eps": [1e-30, 0.9]}),
        OptionSet("threshold", {"eps": [1e-30, 1e-3], "d": 1.01}),
        OptionSet("beta2-decay", {"eps": [1e-30, 1e-3], "beta2_decay": -0.5}),
        OptionSet("decay", {"eps": [1e-30, 1e-3], "weight_decay": 0.3}),
        OptionSet("absolute", {"eps": [1e-30, 1e-3]}, {"relative_step": False}, lr=2.0),
        OptionSet("unscaled", {"eps": [1e-30, 1e-3]}, {"scale_parameter": False}),
        OptionSet("maximize", {"maximize": True}),
    ),
    "Muon": (
        OptionSet("default", long=True),
        OptionSet("plain", {"nesterov": False, "weight_decay": 0.0}),
        OptionSet("momentum", {"momentum": 0.5}),
        OptionSet("decay", {"weight_decay": 0.3}),
        OptionSet("dampening", {}, {"momentum.dampening": 0.3}),
        OptionSet("one-step", {"ns_steps": 1}),
        OptionSet("coefficients", {"ns_coefficients": [2.0, -1.5, 0.5], "ns_steps": 3}),
        OptionSet("eps", {"eps": 9.7}),
        OptionSet("match-rms", {"adjust_lr_fn": "match_rms_adamw"}),
        OptionSet("spectral", {"adjust_lr_fn": "spectral_unclamped"}),
    ),
    "LBFGS": (
        OptionSet("default", long=True),
        OptionSet("wolfe", {"line_search_fn": "strong_wolfe"}, lr=1.0, long=True),
        OptionSet("history", {"history_size": 2, "line_search_fn": "strong_wolfe"}, lr=1.0),
        OptionSet("max-iter", {"max_iter": 4, "max_eval": 25, "history_size": 3}),
        OptionSet("max-eval", {"max_eval": 5, "line_search_fn": "strong_wolfe"}, lr=1.0),
        # Rates with which the line search has much to do.
        OptionSet("slow", {"max_eval": 5, "line_search_fn": "strong_wolfe"}, lr=0.01),
        OptionSet("fast", {"line_search_fn": "strong_wolfe"}, lr=10.0),
        OptionSet(
            "fast-tolerance",
            {"tolerance_change": 0.5, "line_search_fn": "strong_wolfe"},
            lr=10.0,
        ),
        OptionSet("tolerance-grad", {"tolerance_grad": 0.05}),
        OptionSet("tolerance-change", {"tolerance_change": 1e-2}),
        OptionSet(
            "tolerance-wolfe", {"tolerance_change": 1e-2, "line_search_fn": "strong_wolfe"}, lr=1.0
        ),
        # What no smooth loss of ordinary size shows: a loss that is infinite or NaN in the middle
        # of a line search, one that falls and rises within two steps of it, no evaluation left.
        OptionSet(
            "infinite",
            {"max_eval": 200, "line_search_fn": "strong_wolfe"},
            lr=1e60,
            problems=("rosenbrock",),
            dtypes=("float64",),
        ),
        OptionSet(
            "gap",
            {"max_iter": 3, "max_eval": 9, "line_search_fn": "strong_wolfe"},
            lr=6.0,
            problems=("gap",),
        ),
        OptionSet(
            "plateau",
            {"max_iter": 1, "max_eval": 9, "line_search_fn": "strong_wolfe"},
            lr=0.2,
            problems=("plateau",),
        ),
        OptionSet(
            "no-evaluation",
            {"max_eval": 0, "line_search_fn": "strong_wolfe"},
            problems=("rosenbrock", "a1"),
        ),
        OptionSet(
            "maximize", {"maximize": True, "max_iter": 2, "max_eval": 50}, problems=("a1", "tall")
        ),
    ),
    "Lion": (
        OptionSet("default", long=True),
        OptionSet("betas", {"betas": [0.5, 0.8]}),
        OptionSet("decay", {"weight_decay": 0.3}),
        OptionSet("betas-decay", {"betas": [0.95, 0.98], "weight_decay": 0.1}),
        OptionSet("caution", {"caution": True}),
        OptionSet("corrected-decay", {"corrected_weight_decay": True, "weight_decay": 0.3}),
        OptionSet("maximize", {"maximize": True}),
    ),
    "Lamb": (
        OptionSet("default", {"max_grad_norm": None}),
        OptionSet("adapt", {"max_grad_norm": None, "always_adapt": True}, long=True),
        OptionSet("adapt-only", {"max_grad_norm": None, "always_adapt": True, "weight_decay": 0.0}),
        OptionSet("no-adapt", {"max_grad_norm": None, "weight_decay": 0.0}),
        OptionSet("decay", {"max_grad_norm": None, "always_adapt": True, "weight_decay": 0.3}),
        OptionSet("eps", {"max_grad_norm": None, "always_adapt": True, "eps": 1e-2}),
        OptionSet("betas", {"max_grad_norm": None, "always_adapt": True, "betas": [0.8, 0.95]}),
        OptionSet("grad-norm", {"max_grad_norm": 0.1}),
        OptionSet("no-averaging", {"max_grad_norm": None, "grad_averaging": False}),
        OptionSet("trust-clip", {"max_grad_norm": None, "trust_clip": True}, lr=0.1),
        OptionSet("no-correction", {"max_grad_norm": None, "bias_correction": False}),
        OptionSet(
            "decoupled", {"max_grad_norm": None, "decoupled_decay": True, "weight_decay": 0.3}
        ),
        OptionSet(
            "corrected-decay",
            {
                "max_grad_norm": None,
                "decoupled_decay": True,
                "corrected_weight_decay": True,
                "weight_decay": 0.3,
            },
        ),
        OptionSet("caution", {"max_grad_norm": None, "caution": True}),
    ),
    "Adan": (
        OptionSet("default", long=True),
        OptionSet("betas", {"betas": [0.9, 0.8, 0.95]}),
        OptionSet("eps", {"eps": 1e-3}),
        OptionSet("decay", {"weight_decay": 0.3}),
        OptionSet("no-prox", {"weight_decay": 0.3, "no_prox": True}),
        OptionSet("caution", {"caution": True}),
    ),
}
"""By PyTorch's names of the optimizers."""

CLIPPED = ("a1", "gradients")
NORM_TYPES: tuple[float | str, ...] = (2.0, 1.0, 3.0, 0.5, "inf")
EXTREMES = ("scale-1e30", "scale-1e-30", "nan", "inf", "zero", "conv", "tied", "absent", "unused")
"""Where clipping meets norms that overflow, underflow, are not finite, 0, or of missing tensors."""
LIMIT = 0.1
"""The norm that is allowed, which the gradients of all problems but one exceed."""
RESUMED = ("amsgrad", "centered-momentum", "nesterov", "max-iter")
"""Option sets, besides the long ones, that are taken up again half way: each has its own state."""
SCHEDULES = (
    "constant",
    "linear-down",
    "cosine",
    "exponential",
    "step",
    "noam",
    "composed-product",
    "composed-warmup",
    "sequential-warmup",
)
"""Those of :mod:`pitb.schedulers` that are trained with: each of burn's kinds."""
LONG_PROBLEMS = ("a1", "quadratic", "rosenbrock", "gradients")
TIED = "tied"
"""A problem of its own: the sides disagree on it before any optimizer does."""
NEEDS_LOSS = ("LBFGS",)
"""Optimizers that evaluate the loss themselves, and so take no prescribed gradients."""


def option_cases() -> Iterator[Case]:
    """Every option set on every problem, in both precisions."""
    for optimizer in optimizers():
        for chosen in SETS[optimizer.pytorch]:
            for name in names():
                wanted = name in chosen.problems if chosen.problems else not problem(name).special
                if not wanted or not _takes(optimizer, name):
                    continue
                for dtype in chosen.dtypes:
                    yield _case(optimizer, chosen, name, dtype, STEPS)
                    if chosen.long and name in LONG_PROBLEMS:
                        yield _case(optimizer, chosen, name, dtype, LONG)


def _takes(optimizer: Optimizer, name: str) -> bool:
    """Whether an optimizer can be tried on a problem at all."""
    found = problem(name)
    if optimizer.pytorch in NEEDS_LOSS and found.model == "prescribed":
        return False
    return bool(found.matrices) or not optimizer.matrices_only


def _case(optimizer: Optimizer, chosen: OptionSet, name: str, dtype: str, steps: int) -> Case:
    found = problem(name)
    frozen: tuple[str, ...] = ()
    if optimizer.matrices_only:
        frozen = tuple(key for key in found.parameters if key not in found.matrices)
    usual = PROBLEM_RATES.get((optimizer.pytorch, name), RATES[optimizer.pytorch])
    return Case(
        optimizer=optimizer.pytorch,
        set=chosen.name,
        problem=name,
        dtype=dtype,
        lr=usual if chosen.lr is None else chosen.lr,
        options=dict(chosen.options),
        burn=dict(chosen.burn),
        steps=steps,
        frozen=frozen,
    )


def cases() -> Iterator[Case]:
    """All of them, but those that PyTorch's own list of configurations adds."""
    yield from option_cases()
    yield from clip_cases()
    yield from group_cases()
    yield from loop_cases()
    yield from scheduled_cases()


def _variants(
    optimizer: str, name: str, tried: Iterable[str], options: Options | None = None, **rest: Any
) -> Iterator[Case]:
    """One configuration on several problems, in both precisions."""
    entry = by_pytorch_name(optimizer)
    chosen = OptionSet(name, options or {})
    for problem_name in tried:
        if not _takes(entry, problem_name):
            continue
        for dtype in DTYPES:
            case = _case(entry, chosen, problem_name, dtype, STEPS)
            frozen = tuple(dict.fromkeys((*case.frozen, *rest.get("frozen", ()))))
            yield replace(case, **(rest | {"frozen": frozen}))


def clip_cases() -> Iterator[Case]:
    """Clipping by the optimizer and by the training loop."""
    own: dict[str, Options] = {"norm": {"Norm": LIMIT}, "value": {"Value": 0.05}}
    for optimizer in optimizers():
        if not any(name.endswith("clipping") for name in optimizer.burn_only):
            continue
        plain = _aligned(optimizer.pytorch)
        for name, how in own.items():
            tried = (*CLIPPED, *EXTREMES) if optimizer.pytorch == "SGD" else CLIPPED
            yield from _variants(
                optimizer.pytorch, f"clip-{name}", tried, plain, burn_clip=how, suite="clip"
            )
            for way in ("config", "group", "late"):
                yield from _variants(
                    optimizer.pytorch,
                    f"clip-{name}-{way}",
                    CLIPPED[:1],
                    plain,
                    burn_clip=how,
                    clipping_by=way,
                    suite="clip",
                )
    # Where the norm is small what is added to it shows; a large rate makes it seen.
    tiny = {"Norm": 1e-6}
    for case in _variants("SGD", "clip-norm-tiny", ("scale-1e-4",), burn_clip=tiny, suite="clip"):
        yield replace(case, lr=1e4)
    for p in NORM_TYPES:
        how = {"scope": "global", "max_norm": LIMIT, "norm_type": p}
        tried = (*CLIPPED, *EXTREMES) if p in (2.0, "inf") else CLIPPED
        name = f"clip-global-{p:g}" if isinstance(p, float) else f"clip-global-{p}"
        yield from _variants("SGD", name.replace(".", "-"), tried, clip=how, suite="clip")
    strict = {"scope": "global", "max_norm": LIMIT, "error_if_nonfinite": True}
    yield from _variants("SGD", "clip-strict", ("a1", "nan", "inf"), clip=strict, suite="clip")
    each = {"scope": "per-parameter", "max_norm": LIMIT, "norm_type": 2.0}
    value = {"scope": "value", "clip_value": 0.05}
    for optimizer_name in ("SGD", "AdamW"):
        for name, how in (("each", each), ("value-loop", value)):
            yield from _variants(
                optimizer_name, f"clip-{name}", (*CLIPPED, *EXTREMES), clip=how, suite="clip"
            )
    yield from _variants("Muon", "clip-each", CLIPPED, clip=each, suite="clip")
    yield from _variants("LBFGS", "clip-each", ("a1",), {"max_iter": 2}, clip=each, suite="clip")
    for optimizer in optimizers():
        whole = {"scope": "global", "max_norm": LIMIT}
        if optimizer.pytorch != "SGD":
            options = _aligned(optimizer.pytorch)
            if optimizer.pytorch in NEEDS_LOSS:
                # A clipped gradient is not the loss's: many of them lead nowhere.
                options |= {"max_iter": 2}
            name = "clip-global"
            wide = (*CLIPPED, "scale-1e30")
            yield from _variants(optimizer.pytorch, name, wide, options, clip=whole, suite="clip")


def _aligned(optimizer: str) -> Options:
    """Options without what burn cannot do by default."""
    return dict(next(iter(SETS[optimizer])).options)


def group_cases() -> Iterator[Case]:
    """Parameters with an optimizer, options and a rate of their own; frozen ones."""
    second = ["fc2.weight", "fc2.bias"]
    biases = ["fc1.bias", "fc2.bias"]
    groups: dict[str, tuple[str, Options, Options]] = {
        "groups": (
            "SGD",
            {},
            {"parameters": second, "optimizer": "SGD", "options": {"momentum": 0.9}, "lr": 0.01},
        ),
        "groups-no-decay": (
            "AdamW",
            {"weight_decay": 0.5},
            {
                "parameters": biases,
                "optimizer": "AdamW",
                "options": {"weight_decay": 0.0},
                "lr": 0.01,
            },
        ),
        "groups-muon-adamw": (
            "Muon",
            {},
            {"parameters": biases, "optimizer": "AdamW", "options": {}, "lr": 0.005},
        ),
    }
    for name, (optimizer, options, group) in groups.items():
        for case in _variants(optimizer, name, ("a1", "tall", "square"), options, suite="groups"):
            yield replace(case, groups=(group,), frozen=())
    for entry in optimizers():
        options = _aligned(entry.pytorch) | ({"momentum": 0.9} if entry.pytorch == "SGD" else {})
        yield from _variants(
            entry.pytorch, "frozen", CLIPPED[:1], options, frozen=("fc1.weight",), suite="groups"
        )


def loop_cases() -> Iterator[Case]:
    """Accumulated gradients, runs that are taken up again by a new process, unobserved ones."""
    for parts in (2, 4):
        yield from _variants(
            "SGD",
            f"accumulate-{parts}",
            ("a1", "wide", "conv", "embedding"),
            {"momentum": 0.9},
            accumulate=parts,
            suite="loop",
        )
        yield from _variants(
            "AdamW", f"accumulate-{parts}", ("a1",), accumulate=parts, suite="loop"
        )
    for optimizer in optimizers():
        for chosen in SETS[optimizer.pytorch]:
            if chosen.long:
                for case in _variants(
                    optimizer.pytorch,
                    f"unobserved-{chosen.name}",
                    ("a1", "gradients"),
                    dict(chosen.options),
                    observe=False,
                    suite="loop",
                ):
                    yield case if chosen.lr is None else replace(case, lr=chosen.lr)
            if chosen.long or chosen.name in RESUMED:
                for case in _variants(
                    optimizer.pytorch,
                    f"resumed-{chosen.name}",
                    ("a1", "quadratic" if optimizer.pytorch in NEEDS_LOSS else "gradients"),
                    dict(chosen.options),
                    resume_step=STEPS // 2,
                    suite="loop",
                ):
                    yield case if chosen.lr is None else replace(case, lr=chosen.lr)


def scheduled_cases() -> Iterator[Case]:
    """Training with a schedule; the schedules alone are compared in :mod:`pitb.schedulers`."""
    tried: tuple[tuple[str, Options, tuple[str, ...]], ...] = (
        ("SGD", {"momentum": 0.9}, SCHEDULES),
        ("AdamW", {"weight_decay": 0.3}, SCHEDULES),
        # With a rate that stays, timm's correction of the decay does nothing.
        ("Lion", {"corrected_weight_decay": True, "weight_decay": 0.3}, ("exponential",)),
        (
            "Lamb",
            {"max_grad_norm": None, "corrected_weight_decay": True, "decoupled_decay": True},
            ("exponential",),
        ),
    )
    for optimizer, options, schedules in tried:
        for name in schedules:
            yield from _variants(
                optimizer,
                f"schedule-{name}",
                ("a1", "gradients"),
                options,
                schedule=name,
                suite="schedule",
            )
