"""What checking a bundle found, and how people read it."""

import json as json_format
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

SHOWN = 40
"""Faults that are printed; the rest are counted, and stand in the JSON."""


def printable(text: str, kept: str = "") -> str:
    """Text of strangers as it may reach a terminal or a log: nothing in it does anything there.

    What is not printable, such as escapes, ends of lines and marks that turn the direction of
    writing, is written as JSON does, so that JSON stays JSON of the same value; the letters of
    ``kept`` are left as they are.
    """
    return "".join(
        letter if letter.isprintable() or letter in kept else json_format.dumps(letter)[1:-1]
        for letter in text
    )


def json_text(found: Any) -> str:
    """JSON as it is printed: letters of all scripts as they are, and nothing unprintable."""
    return printable(json_format.dumps(found, indent=2, ensure_ascii=False), kept="\n")


@dataclass(frozen=True)
class Fault:
    """Something that is not as it must be."""

    where: str
    """The file, and the place in it."""
    what: str
    """In words."""


@dataclass
class Report:
    """What was checked, and what is wrong."""

    bundle: str
    hash: str = ""
    faults: list[Fault] = field(default_factory=list)
    checked: Counter[str] = field(default_factory=Counter)
    """How many things of each kind were checked."""
    not_recomputed: list[Fault] = field(default_factory=list)
    """What was taken as it is, and why."""
    notes: list[str] = field(default_factory=list)

    def fault(self, where: str, what: str) -> None:
        """Add a fault."""
        self.faults.append(Fault(where, what))

    def taken(self, where: str, why: str) -> None:
        """Add what was not computed again."""
        self.not_recomputed.append(Fault(where, why))

    def json(self) -> dict[str, Any]:
        """As JSON has it."""
        found = asdict(self)
        found["checked"] = dict(self.checked)
        found["verdict"] = "altered" if self.faults else "OK"
        return found


def text(found: dict[str, Any]) -> str:
    """The report for people, from its JSON."""
    lines = [f"{found['bundle']}", f"hash {found['hash']}"]
    checked = ", ".join(f"{count} {what}" for what, count in found["checked"].items())
    lines.append(f"checked: {checked}")
    for item in found["not_recomputed"]:
        lines.append(f"not recomputed: {item['where']}: {item['what']}")
    lines += [f"note: {note}" for note in found["notes"]]
    faults = found["faults"]
    lines += [f"{item['where']}: {item['what']}" for item in faults[:SHOWN]]
    if len(faults) > SHOWN:
        lines.append(f"... and {len(faults) - SHOWN} faults more; --json lists all")
    if faults:
        lines.append(f"ALTERED: {len(faults)} faults")
    else:
        lines.append("OK: everything that can be computed again comes out as it is in the bundle")
    return "\n".join(map(printable, lines))
