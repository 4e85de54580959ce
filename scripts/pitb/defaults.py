"""The defaults of both sides, and where they differ."""

import math
import re
import struct
from dataclasses import dataclass
from typing import Any

from pitb.errors import PitbError
from pitb.registry import Hyperparameter, Optimizer, published_optimizers

Fields = dict[str, str]


@dataclass(frozen=True)
class Difference:
    """One hyper-parameter whose default differs, for all optimizers of a family that share it."""

    optimizers: tuple[str, ...]
    label: str
    pytorch: str
    burn: str
    sources: tuple[str, ...]
    """burn's configurations that hold it."""

    @property
    def name(self) -> str:
        """``Adam / AdamW eps``."""
        return f"{' / '.join(self.optimizers)} {self.label}"


def parse_debug(text: str) -> tuple[str, Fields]:
    """Name and top-level fields, as text, of what Rust's ``{:?}`` prints of a struct.

    >>> parse_debug("A { x: 1e-5, y: Some(B { z: 1 }) }")
    ('A', {'x': '1e-5', 'y': 'Some(B { z: 1 })'})

    Raises:
        PitbError: It is not the ``Debug`` output of a struct.
    """
    match = re.fullmatch(r"(\w+) \{ (.*) \}", text)
    if match is None:
        raise PitbError(f"not the Debug output of a configuration: {text!r}")
    fields = {}
    for part in _split(match[2]):
        name, separator, value = part.partition(": ")
        if not separator:
            raise PitbError(f"not a field of a configuration: {part!r}")
        fields[name] = value
    return match[1], fields


def _split(text: str) -> list[str]:
    """Split at the commas that stand in no bracket."""
    parts, depth, start = [], 0, 0
    for i, character in enumerate(text):
        if character in "({[":
            depth += 1
        elif character in ")}]":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 2
    return [*parts, text[start:]]


def differences(pytorch: dict[str, Any], burn: dict[str, Any]) -> list[Difference]:
    """Compare the defaults of every optimizer in the registry.

    None and the value that means off are the same; numbers are the same where they are equal as
    f32, which most of burn's fields are; what belongs to a part that is off by default, such as
    momentum, is compared as it is where that part is on.

    Args:
        pytorch: ``opt.defaults`` by PyTorch's optimizer names.
        burn: For each burn configuration its ``debug`` output.
    """
    found: list[Difference] = []
    for optimizer in published_optimizers():
        _check_covered(optimizer, pytorch, burn)
        for item in optimizer.hyperparameters:
            a = pytorch_default(pytorch[optimizer.pytorch], item)
            source, b = burn_default(burn, optimizer, item)
            if same(a, b, item.off):
                continue
            difference = Difference((optimizer.pytorch,), item.label, shown(a), b, (source,))
            _add(found, difference, optimizer.family)
    return found


def _check_covered(optimizer: Optimizer, pytorch: dict[str, Any], burn: dict[str, Any]) -> None:
    """No default of either side goes unnoticed, also one that a new version brings."""
    mapped = {item.pytorch.partition("[")[0] for item in optimizer.hyperparameters}
    for name in pytorch[optimizer.pytorch]:
        if name not in (*mapped, *optimizer.pytorch_only, "lr"):
            raise PitbError(f"the list of names lacks {name!r} of PyTorch's {optimizer.pytorch}")
    _, fields = parse_debug(burn[optimizer.burn_config]["debug"])
    mapped = {item.burn.partition(".")[0] for item in optimizer.hyperparameters}
    for name in fields:
        if name not in (*mapped, *optimizer.burn_only):
            raise PitbError(f"the list of names lacks {name!r} of burn's {optimizer.burn_config}")


def _add(found: list[Difference], new: Difference, family: str) -> None:
    families = {optimizer.pytorch: optimizer.family for optimizer in published_optimizers()}
    for i, old in enumerate(found):
        same_values = (old.label, old.pytorch, old.burn) == (new.label, new.pytorch, new.burn)
        if same_values and families[old.optimizers[0]] == family:
            found[i] = Difference(
                old.optimizers + new.optimizers,
                old.label,
                old.pytorch,
                old.burn,
                tuple(dict.fromkeys(old.sources + new.sources)),
            )
            return
    found.append(new)


def pytorch_default(defaults: dict[str, Any], item: Hyperparameter) -> Any:
    """The default of one hyper-parameter from ``opt.defaults``."""
    name, _, index = item.pytorch.rstrip("]").partition("[")
    if name not in defaults:
        raise PitbError(f"opt.defaults has no {name!r}, which the list of hyper-parameters names")
    value = defaults[name]
    return value[int(index)] if index else value


def burn_default(
    burn: dict[str, Any], optimizer: Optimizer, item: Hyperparameter
) -> tuple[str, str]:
    """The configuration that holds the default of one hyper-parameter, and its text there."""
    first, _, rest = item.burn.partition(".")
    source, field = (item.when, rest) if item.when else (optimizer.burn_config, first)
    _, fields = parse_debug(burn[source]["debug"])
    if field not in fields:
        raise PitbError(f"{source} has no {field!r}, which the list of hyper-parameters names")
    return source, fields[field]


def same(pytorch: Any, burn: str, off: float | None) -> bool:
    """Whether a default of PyTorch's and the text of one of burn's mean the same."""
    if isinstance(pytorch, bool):
        return burn == str(pytorch).lower()
    pytorch_off = pytorch is None or (off is not None and pytorch == off)
    if burn == "None":
        return pytorch_off
    try:
        value = float(burn)
    except ValueError:
        return False  # Some(..), which is a value where PyTorch has another
    if pytorch_off:
        return off is not None and value == off
    return as_f32(float(pytorch)) == as_f32(value)


def as_f32(value: float) -> float:
    """The f32 nearest to ``value``."""
    try:
        rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded


def shown(value: Any) -> str:
    """A default as text: the shortest decimal for numbers."""
    return f"{value:g}" if isinstance(value, float) else str(value)
