"""What differs between two configurations, as items that can be set to either side's value alone.

A configuration is laid out as *settings*, a flat table; a run of the reference is built of any such
table, so also of one that has some settings of either side.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from pitb.breadth.mutants import choices_read
from pitb.explain.building import ABSENT, CHOICE, OPTION, Settings, build
from pitb.explain.configurations import Configuration
from pitb.explain.members import CLIP_KEYS, Member
from pitb.reference import lbfgs
from pitb.reference.descriptions import FLAGS, shared_differences
from pitb.reference.equations import Equations
from pitb.reference.optimizers import FUNCTIONS
from pitb.reference.training import Run
from pitb.registry import Optimizer, Options

VALUE, EQUATION, LOOP, OPTIMIZER = "value", "equation", "loop", "optimizer"
"""Kinds of items: a hyper-parameter, a choice of equation, something of the training loop, or an
optimizer with all that only it has."""


@dataclass(frozen=True)
class Item:
    """One difference."""

    name: str
    """PyTorch's name of a value, ``betas[0]``; of a choice of equation its own."""
    kind: str
    a: Any
    b: Any
    keys: tuple[str, ...]
    """The settings that it stands for."""
    note: str = ""


@dataclass(frozen=True)
class Layout:
    """Two configurations as settings that fit each other."""

    a: Settings
    b: Settings
    items: tuple[Item, ...]
    """What can be tried."""
    unread: tuple[Item, ...]
    """Choices of equation that none of these runs reads."""
    untried: tuple[Item, ...]
    """What differs and is not tried: how PyTorch computes, the number of steps."""
    case_a: Configuration
    case_b: Configuration
    steps: int

    def mixed(self, broken: Iterable[int]) -> Settings:
        """A's settings with some of the items as B has them."""
        found = dict(self.a)
        for index in broken:
            for key in self.items[index].keys:
                if key in self.b:
                    found[key] = self.b[key]
                else:
                    found.pop(key, None)
        return found

    def run(self, broken: Iterable[int]) -> Run:
        """The run of A's configuration with some of the items as B has them."""
        chosen = sorted(broken)
        name = "+".join(self.items[i].name for i in chosen) or "none"
        return build(self.mixed(chosen), (self.case_a, self.case_b), self.steps, name)


def lay_out(
    a: Configuration, b: Configuration, initial: tuple[str, str], steps: int | None = None
) -> Layout:
    """Lay two configurations out.

    Args:
        a: The configuration that things are aligned to.
        b: The one whose items are aligned.
        initial: The names of the problems that A and B start from: alike, or with other values.
        steps: How many updates; the fewer of both where None.
    """
    a, b = _clips_alike(a, b)
    table = _Table()
    _loop(table, a, b, initial)
    _members(table, "", a.member, b.member)
    _groups(table, a, b)
    untried = [
        Item(key, VALUE, a.member.how[key], b.member.how[key], (), "how it is computed, not what")
        for key in a.member.how
        if key in b.member.how and a.member.how[key] != b.member.how[key]
    ]
    if a.steps != b.steps and steps is None:
        untried.append(Item("steps", LOOP, a.steps, b.steps, (), "the fewer are compared"))
    if a.dtype != b.dtype:
        untried.append(Item("dtype", LOOP, a.dtype, b.dtype, (), "it sets the rounding floor"))
    items = table.items()
    layout = Layout(
        table.a, table.b, items, (), tuple(untried), a, b, steps or min(a.steps, b.steps)
    )
    return _without_unread(layout)


class _Table:
    """Settings of both sides, and what each differing one is called."""

    def __init__(self) -> None:
        self.a: Settings = {}
        self.b: Settings = {}
        self.named: dict[str, tuple[str, str, str]] = {}

    def add(
        self, key: str, a: Any, b: Any, name: str, kind: str, note: str = "", joined: str = ""
    ) -> None:
        """A setting of both sides; settings that are ``joined`` under one name are one item."""
        self.a[key], self.b[key] = a, b
        if _plain(a) != _plain(b):
            self.named[key] = (joined or name, kind, note)

    def items(self) -> tuple[Item, ...]:
        """The items, in the order in which their first settings were added."""
        by_name: dict[tuple[str, str], list[str]] = {}
        for key, (name, kind, _) in self.named.items():
            by_name.setdefault((name, kind), []).append(key)
        return tuple(
            Item(
                name,
                kind,
                _one([self.a[key] for key in keys], keys),
                _one([self.b[key] for key in keys], keys),
                tuple(keys),
                self.named[keys[0]][2],
            )
            for (name, kind), keys in by_name.items()
        )


def _one(values: list[Any], keys: list[str]) -> Any:
    distinct = [value for i, value in enumerate(values) if value not in values[:i]]
    if len(distinct) == 1:
        return distinct[0]
    return {key.removeprefix(OPTION): value for key, value in zip(keys, values, strict=True)}


def _plain(value: Any) -> Any:
    """Numbers that are equal are no difference, whatever their type; true is no 1."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _loop(table: _Table, a: Configuration, b: Configuration, initial: tuple[str, str]) -> None:
    """What the training loop does, the clips of the optimizers with it."""
    table.add("initial", *initial, "initial state", LOOP)
    table.add("accumulate", a.accumulate, b.accumulate, "accumulate", LOOP)
    table.add("frozen", a.frozen, b.frozen, "frozen", LOOP)
    table.add("resume_step", a.resume_step, b.resume_step, "resume_step", LOOP)
    table.add("dtype", a.dtype, b.dtype, "dtype", LOOP)
    table.named.pop("dtype", None)  # the reference is exact in either
    if a.rates or b.rates:
        rates = [side.rates or (side.member.lr,) * side.steps for side in (a, b)]
        shortest = min(map(len, rates))
        table.add("rates", rates[0][:shortest], rates[1][:shortest], "rate schedule", LOOP)
    _clip(table, "clip", a.clip, b.clip, "clip")


def _clips_alike(a: Configuration, b: Configuration) -> tuple[Configuration, Configuration]:
    """Both with their clips in one place, where that can be.

    What one side's loop clips and the other's optimizer is the same clip, but for equations. So it
    is where a loop begins late, which the reference knows of optimizers alone.
    """
    sides = (a, b)
    one_each = all((side.clip is None) != (side.member.clip is None) for side in sides)
    late = any(side.clip is not None and side.clip["first_step"] > 1 for side in sides)
    apart = one_each and (a.clip is None) != (b.clip is None)
    grouped = any(side.groups for side in sides)  # where an optimizer clips a part alone
    if grouped or not (apart or late):
        return a, b
    return _by_optimizer(a), _by_optimizer(b)


def _by_optimizer(side: Configuration) -> Configuration:
    """A configuration whose loop's clip is the optimizer's, with the loop's equations."""
    if side.clip is None or side.member.clip is not None:
        return side
    equations = side.member.equations.but(
        own_clip_denominator=side.member.equations.clip_denominator, own_clip_limit="float64"
    )
    member = replace(side.member, equations=equations, clip=side.clip)
    return replace(side, clip=None, member=member)


def _clip(table: _Table, key: str, a: Options | None, b: Options | None, name: str) -> None:
    alike = a is not None and b is not None and CLIP_KEYS[a["scope"]] == CLIP_KEYS[b["scope"]]
    if a is None or b is None or not alike:
        table.add(key, a, b, name, LOOP)
        return
    for field in a:
        table.add(f"{key}.{field}", a[field], b.get(field), f"{name}.{field}", LOOP)


def _members(table: _Table, prefix: str, a: Member, b: Member) -> None:
    """An optimizer of each side, with its options and equations."""
    same = a.entry.pytorch == b.entry.pytorch
    function = FUNCTIONS.get(a.entry.pytorch)
    alike = same or (function is not None and function is FUNCTIONS.get(b.entry.pytorch))
    name = f"{prefix}optimizer"
    if "rates" not in table.a:
        table.add(f"{prefix}lr", a.lr, b.lr, f"{prefix}lr", VALUE)
    _clip(table, f"{prefix}own_clip", a.clip, b.clip, f"{prefix}clip")
    joined = "" if alike else name
    optimizers = (a.entry.pytorch, a.entry.pytorch if alike else b.entry.pytorch)
    table.add(f"{prefix}entry", *optimizers, name, OPTIMIZER)
    for option in _option_names(a, b):
        ours, theirs = _values(a, b, option), _values(b, a, option)
        both = ours is not ABSENT and theirs is not ABSENT
        key, shown = f"{prefix}{OPTION}{option}", f"{prefix}{option}"
        if not both and alike:
            # One of two names of an optimizer has it, the other is as if it were left alone.
            left_alone = {flag: value for _, flag, value in FLAGS.values()}
            ours = left_alone.get(option, theirs) if ours is ABSENT else ours
            theirs = left_alone.get(option, ours) if theirs is ABSENT else theirs
            both = True
        kind = VALUE if both else OPTIMIZER
        table.add(key, ours, theirs, shown, kind, joined="" if both else joined)
    for choice in _choices(a, b):
        ours, theirs = a.equations.value(choice), b.equations.value(choice)
        own = _is_own(choice) and not alike
        if (
            alike
            and choice in FLAGS
            and FLAGS[choice][1] not in a.options.keys() & b.options.keys()
        ):
            ours = theirs = FLAGS[choice][0]  # where there is no flag its value does the same
        note = ""
        if choice == "decay" and not same:
            note = f"which is what tells {a.entry.pytorch} from {b.entry.pytorch}"
        table.add(
            f"{prefix}{CHOICE}{choice}",
            ours,
            theirs,
            choice,
            OPTIMIZER if own else EQUATION,
            note,
            joined if own else "",
        )


def _is_own(choice: str) -> bool:
    """Whether a choice is of one optimizer's equations, and not one that a library makes alike in
    all of them.
    """
    return choice not in shared_differences()


def _choices(a: Member, b: Member) -> list[str]:
    """The choices of equation, those of L-BFGS where one of both is it."""
    found = [item.name for item in fields(Equations) if item.name != "lbfgs"]
    if "LBFGS" in (a.entry.pytorch, b.entry.pytorch):
        found += [f"lbfgs.{item.name}" for item in fields(lbfgs.Choices)]
    return found


def _option_names(a: Member, b: Member) -> list[str]:
    """Every option of either."""
    return list(dict.fromkeys([*_names_of(a), *_names_of(b)]))


def _names_of(member: Member) -> list[str]:
    """The options of a member, a tuple's elements apart where the registry has them so."""
    apart: dict[str, list[str]] = {}
    for item in member.entry.hyperparameters:
        if item.pytorch != item.pytorch_name:
            apart.setdefault(item.pytorch_name, []).append(item.pytorch)
    return [name for option in member.options for name in apart.get(option, [option])]


def _values(member: Member, other: Member, option: str) -> Any:
    """The value of an option, or ABSENT; what burn's null hides is as the other side has it, where
    that side has the part off, too.
    """
    if option not in _names_of(member):
        return ABSENT
    if option in member.moot and option in other.options and _is_off(other, option):
        return other.options[option]
    if option in other.moot and _is_off(member, option):
        return member.options[option]
    return member.value(option)


def _is_off(member: Member, option: str) -> bool:
    """Whether the part of burn's configuration to which an option belongs is off."""
    return _part_is_off(member.entry, member.options, option)


def _part_is_off(entry: Optimizer, options: Mapping[str, Any], option: str) -> bool:
    items = {item.pytorch: item for item in entry.hyperparameters}
    if option not in items:
        return False
    part = items[option].burn.partition(".")[0]
    switches = [
        item for item in items.values() if item.burn.startswith(f"{part}.") and item.off == 0
    ]
    return any(item.of(options) in (None, item.off) for item in switches)


def _groups(table: _Table, a: Configuration, b: Configuration) -> None:
    """Parameters with settings of their own: by setting where they are grouped alike."""
    shapes = [[group.parameters for group in side.groups] for side in (a, b)]
    if shapes[0] != shapes[1]:
        table.add("groups", a.groups, b.groups, "groups", LOOP)
        return
    table.a["group_count"] = table.b["group_count"] = len(a.groups)
    for index, (ours, theirs) in enumerate(zip(a.groups, b.groups, strict=True)):
        prefix = f"groups[{index}]."
        table.a[f"{prefix}parameters"] = table.b[f"{prefix}parameters"] = ours.parameters
        _members(table, prefix, ours, theirs)


class _Watched(lbfgs.Choices):
    """Choices of L-BFGS that note which of them are read."""

    def __getattribute__(self, name: str) -> Any:
        """Note the name, and give the value."""
        if not name.startswith("_"):
            _READ.add(f"lbfgs.{name}")
        return super().__getattribute__(name)


_READ: set[str] = set()


def _read(run: Run) -> set[str]:
    """The choices of equation that the reference reads when it trains ``run``."""
    _READ.clear()
    groups = tuple(
        replace(g, equations=g.equations.but(lbfgs=_Watched(**vars(g.equations.lbfgs))))
        for g in run.groups
    )
    return choices_read(replace(run, groups=groups)) | _READ


def _without_unread(layout: Layout) -> Layout:
    """The layout without choices of equation that no run reads in which one item is changed."""
    if not any(item.kind == EQUATION for item in layout.items):
        return layout
    indices = range(len(layout.items))
    others = [i for i in indices if layout.items[i].kind != EQUATION]
    tried = [
        frozenset[int](),
        frozenset(indices),
        *(frozenset({i}) for i in others),
        *(frozenset(indices) - {i} for i in others),
    ]
    read: set[str] = set()
    for broken in dict.fromkeys(tried):
        read |= _read(layout.run(broken))
    kept: list[Item] = []
    unread: list[Item] = []
    for item in layout.items:
        matters = item.kind != EQUATION or item.name in read
        (kept if matters else unread).append(item)
    # What is not read is as A has it; it changes nothing.
    b = dict(layout.b)
    for item in unread:
        for key in item.keys:
            b[key] = layout.a[key]
    return Layout(
        layout.a,
        b,
        tuple(kept),
        tuple(unread),
        layout.untried,
        layout.case_a,
        layout.case_b,
        layout.steps,
    )


def described(value: Any, words: Callable[[str], str] = str) -> str:
    """A value as people read it."""
    if isinstance(value, frozenset):
        return ", ".join(sorted(value)) or "none"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {described(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Member):
        return f"{value.entry.pytorch} for {', '.join(value.parameters)}"
    if isinstance(value, (tuple, list)):
        shown = [described(item) for item in value]
        if len(shown) > 6:
            shown = [*shown[:3], "...", shown[-1]]
        return "[" + ", ".join(shown) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return "none" if value is None else str(value)
