"""What people and machines read of a diagnosis."""

from typing import Any

import numpy as np

from pitb.diagnose import words
from pitb.diagnose.diagnosis import Diagnosis
from pitb.diagnose.explanation import Explanation
from pitb.diagnose.recording import common_name
from pitb.tables import line

COLUMNS = (
    "",
    "optimizer",
    "as in",
    "away from its defaults",
    "residual in ulp",
    "of what is allowed",
)
NOTHING = (
    "nothing explains this: no optimizer of the reference, with any of its options and choices of "
    "equation, makes these steps of these gradients"
)
OFTEN = (
    "this cannot be identified: the loss was evaluated up to {often} times in an update, as L-BFGS "
    "does, and one gradient is recorded for each; record every evaluation as an update of its own "
    "(max_iter=1, without line search)"
)
HINT = (
    "an optimizer that evaluates the loss more than once in an update, as L-BFGS does, cannot be "
    "replayed from one gradient for each; record every evaluation as a step of its own (for "
    "L-BFGS, max_iter=1), or the gradients as the optimizer gets them ('clipped_grad')"
)


def text(diagnosis: Diagnosis) -> str:
    """A diagnosis as lines: the summary first."""
    recording = diagnosis.recording
    lines = [f"{recording.path}: {headline(diagnosis)}"]
    lines += [f"note: {note}" for note in recording.notes]
    if diagnosis.clip is not None:
        lines.append(f"clip: {words.clip_found(diagnosis.clip)}")
    for name in diagnosis.transposed:
        lines.append(
            f"note: the gradients of {name} stand transposed; give --map {name}={name}.T, and "
            "record them in the parameter's layout"
        )
    for group in diagnosis.groups:
        if len(diagnosis.groups) > 1:
            lines += ["", f"{', '.join(group.tensors)}: {words.summary(group.explanations[0])}"]
        lines += ["", *_table(group.explanations), ""]
        best = group.explanations[0]
        lines += [*_values(best), ""]
        lines += [f"- {said}" for said in words.undecided(best, recording.steps)]
        total = recording.only(group.tensors).numbers * recording.steps
        if best.checked < total:
            lines.append(
                f"- {best.checked} of {total} numbers were checked: it works on whole tensors, of "
                "which large ones were left out"
            )
    if not diagnosis.explained and not diagnosis.recording.evaluated_often:
        lines += [f"closest: {closest(diagnosis)}", f"hint: {HINT}"]
    return "\n".join(lines).rstrip() + "\n"


def headline(diagnosis: Diagnosis) -> str:
    """The whole diagnosis in one sentence."""
    often = diagnosis.recording.evaluated_often
    if not diagnosis.explained and often:
        return OFTEN.format(often=often)
    if not diagnosis.explained:
        return NOTHING
    if len(diagnosis.groups) == 1:
        return f"this is {words.summary(diagnosis.best)}"
    each = [
        f"{common_name(group.tensors)} by {words.summary(group.explanations[0])}"
        for group in diagnosis.groups
    ]
    return f"tensors have options of their own: {'; '.join(each)}"


def closest(diagnosis: Diagnosis) -> str:
    """What comes nearest where nothing explains all."""
    if diagnosis.closest is None:
        return "nothing could be replayed at all"
    hypothesis, judged = diagnosis.closest
    step, tensor, index = judged.worst
    total = int(np.size(judged.allowed))
    return (
        f"{hypothesis.optimizer} as {words.LIBRARIES[hypothesis.side]} has it leaves "
        f"{judged.unexplained} of {total} numbers unexplained; the worst is {tensor}[{index}] at "
        f"step {step}, {judged.score:.3g} times what rounding allows"
    )


def _table(explanations: list[Explanation]) -> list[str]:
    rows = [line(COLUMNS), line("---" for _ in COLUMNS)]
    for place, item in enumerate(explanations, 1):
        hypothesis = item.hypothesis
        away = [
            f"{name}={_short(hypothesis.value(name))}" for name in item.changes
        ] + words.deviations(item)
        if hypothesis.clip is not None:
            away.append(words.clip_words(hypothesis.clip))
        rows.append(
            line(
                (
                    str(place),
                    hypothesis.optimizer,
                    words.LIBRARIES[hypothesis.side],
                    ", ".join(away),
                    f"{item.judged.ulp:.1f}",
                    f"{100 * item.judged.score:.0f}%",
                )
            )
        )
    return rows


def _short(value: Any) -> str:
    return words.number(value)


def _values(item: Explanation) -> list[str]:
    rows = [line(("value", "found", "interval that the data allow")), line(["---"] * 3)]
    for name, (low, high) in item.intervals.items():
        if name == "lr":
            rate = float(item.rates[0])
            row = ("rate", words.number(rate), _interval(rate * low, rate * high))
        else:
            value = item.hypothesis.value(name)
            row = (name, words.number(value), _interval(low, high))
        rows.append(line(row))
    return rows


def _interval(low: float, high: float) -> str:
    """Both ends with the digits that tell them apart."""
    for digits in range(3, 12):
        ends = [f"{low:.{digits}g}", f"{high:.{digits}g}"]
        if ends[0] != ends[1] or low == high:
            break
    return f"[{ends[0]}, {ends[1]}]"


def json(diagnosis: Diagnosis) -> dict[str, Any]:
    """A diagnosis for machines; an interval's end is null where there is none."""
    recording = diagnosis.recording
    found: dict[str, Any] = {
        "trace": recording.path,
        "explained": diagnosis.explained,
        "summary": headline(diagnosis),
        "dtype": recording.dtype,
        "steps": recording.steps,
        "notes": recording.notes,
        "transposed": diagnosis.transposed,
        "clip": None,
        "groups": [
            {
                "tensors": group.tensors,
                "explanations": [_explanation(x, recording.steps) for x in group.explanations],
            }
            for group in diagnosis.groups
        ],
    }
    if diagnosis.clip is not None:
        clip = diagnosis.clip
        found["clip"] = {"explained": clip.explained, "how": _how(clip.how)}
        found["clip"]["others"] = [_how(how) for how in clip.others]
    if not diagnosis.explained:
        found["closest"] = closest(diagnosis)
    return found


def _explanation(item: Explanation, steps: int) -> dict[str, Any]:
    hypothesis = item.hypothesis
    read = {**{name: hypothesis.equations.value(name) for name in item_choices(item)}}
    return {
        "summary": words.summary(item),
        "optimizer": hypothesis.optimizer,
        "side": hypothesis.side,
        "options": _plain(hypothesis.options),
        "changed": item.changes,
        "clip": None if hypothesis.clip is None else _how(hypothesis.clip),
        "equations": _plain(read),
        "deviations": item.deviations,
        "intervals": {name: _plain(list(ends)) for name, ends in item.intervals.items()},
        "tied_equations": _plain(item.tied),
        "tied_options": _plain(item.tied_options),
        "undecided": list(words.undecided(item, steps)),
        "rates": _plain([float(rate) for rate in item.rates]),
        "rates_found": item.rates_found,
        "residual_ulp": _plain(item.judged.ulp),
        "share_of_allowed": _plain(item.judged.score),
        "numbers": item.checked,
    }


def item_choices(item: Explanation) -> list[str]:
    """The choices of equation that an explanation reads."""
    from pitb.diagnose.space import reads

    return sorted(reads(item.hypothesis)[0])


def _how(how: dict[str, Any]) -> dict[str, Any]:
    """A clip; the largest element's norm is "inf", as PyTorch takes it."""
    return {k: "inf" if v == float("inf") else v for k, v in how.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, float) and not np.isfinite(value):
        return None
    if isinstance(value, np.generic):
        return _plain(value.item())
    return value
