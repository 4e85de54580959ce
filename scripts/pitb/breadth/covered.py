"""What became of each configuration, field and option that the breadth is to cover."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """What became of one configuration of PyTorch's list."""

    optimizer: str
    desc: str
    kwargs: str
    status: str
    """covered, impossible, no-counterpart or missing."""
    reason: str
    """Why it is not covered, or is only so in other words."""
    cases: tuple[str, ...]


@dataclass(frozen=True)
class Field:
    """What became of one field of a configuration of burn's, or of an option of PyTorch's."""

    owner: str
    """``AdamConfig``, or ``Adam`` of PyTorch."""
    name: str
    """Path of a field, name of an option."""
    default: str
    """As JSON; ``unset`` for what belongs to a part that is off by default."""
    status: str
    """covered, impossible or missing."""
    reason: str
    cases: tuple[str, ...]
    """Those that set it to another value than its default."""
