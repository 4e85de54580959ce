"""What documents quote: lines of the project's own sources, and what its commands print."""

import json
import re
import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pitb import compare, defaults
from pitb.docs.content import Content
from pitb.errors import PitbError
from pitb.files import read_json, read_text
from pitb.ledger import SLACK
from pitb.pages import CLIPS, OPTIMIZERS, STEP_PAIR, default_pair
from pitb.pages.optimizer_defaults import BURN_CONFIGS
from pitb.results import step_json_path, trace_path

LANGUAGES = {"py": "python", "rs": "rust", "yaml": "yaml"}


def excerpt(root: Path, language: str, name: str, start: str, end: str | None = None) -> str:
    """The lines of a file from the first that starts with ``start``, up to one with ``end``.

    Args:
        root: The project.
        language: That of the document, which a source does not speak.
        name: The file.
        start: What the first line starts with, with its indentation.
        end: What the first line that is left out starts with, or nothing for an empty one; the
            file's end where it is None.

    Raises:
        PitbError: The file does not hold such lines.
    """
    lines = read_text(root / name).splitlines()
    first = next((i for i, line in enumerate(lines) if line.startswith(start)), None)
    rest = range((first or 0) + 1, len(lines))
    last = len(lines) if end is None else next((i for i in rest if _ends(lines[i], end)), None)
    if first is None or last is None:
        raise PitbError(f"{name} has no lines from {start!r} to {end!r}")
    text = textwrap.dedent("\n".join(lines[first:last])).rstrip()
    return _fenced(text, LANGUAGES[name.rpartition(".")[2]])


def _ends(line: str, end: str) -> bool:
    return line.startswith(end) if end else not line


def _fenced(text: str, language: str = "text") -> str:
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall("^ *(`+)", text, re.MULTILINE)), 3)
    return f"{fence}{language}\n{text}\n{fence}"


def comparison(root: Path, language: str, a: str, b: str, *quantities: str) -> Content:
    """What ``scripts/compare.py`` prints of two files of the results, and its exit code."""
    found = compare.compare_files(
        root / "results" / a, root / "results" / b, TOLERANCE, list(quantities) or None
    )
    asked = f" --quantities {' '.join(quantities)}" if quantities else ""
    command = f"$ python scripts/compare.py results/{a} \\\n    results/{b}{asked}"
    lines = [command, compare.report(found), "$ echo $?", str(found.exit_code)]
    return Content(_fenced("\n".join(lines)), roundings=SLACK * max(found.steps(), default=1))


WIDTH = 80
"""Of lines that are long by themselves."""
TOLERANCE = 1e-6
"""The default of ``scripts/compare.py``."""


def compiler_error(root: Path, language: str) -> str:
    """What rustc says of the step whose result is not assigned, from its JSON messages.

    Laid out here, since its own layout changes from one version to the next.
    """
    found = read_json(root / "results/evidence/noassign.json")
    lines = [f"error[{found['code']}]: {found['message']}"]
    width = max(len(str(label["line"])) for label in found["labels"])
    for label in found["labels"]:
        lines.append(f"{label['line']:>{width}} | {label['source']}")
        lines.append(f"{'':>{width}} |   {label['text']}")
    lines.append(f"help: {found['help']}: `{found['insertion']}`")
    return _fenced("\n".join(lines))


def discarded(root: Path, language: str) -> str:
    """What ``discard`` prints."""
    found = read_json(root / "results/evidence/discard.json")
    loss = f"loss before {found['loss_before']}  loss after {found['loss_after']}"
    return _fenced(f"$ target/release/discard\n{loss}")


def pytorch_defaults(root: Path, language: str) -> str:
    """``opt.defaults`` of the optimizers of the page, what they leave open left out."""
    from pitb import trace

    lines = []
    for name in OPTIMIZERS:
        found = trace.read(root / "results" / trace_path(f"pytorch/{name}")).configuration
        options = {key: value for key, value in found["options"].items() if value is not None}
        lines.append(f"{name} {json.dumps({'lr': found['lr'], **options})}")
    return _fenced("\n".join(textwrap.fill(line, WIDTH, subsequent_indent="  ") for line in lines))


def burn_defaults(root: Path, language: str) -> str:
    """burn's configurations of the page, as ``{:?}`` prints them."""
    found = read_json(root / "results/evidence/defaults/burn.json")
    lines = [found[config]["debug"] for config in BURN_CONFIGS]
    for line in lines:
        defaults.parse_debug(line)  # or it is no configuration
    return _fenced("\n".join(textwrap.fill(line, WIDTH, subsequent_indent="  ") for line in lines))


def _traces(pair: tuple[str, str]) -> tuple[str, str]:
    return trace_path(pair[0]), trace_path(pair[1])


def _clip(name: str) -> Callable[[Path, str], Content]:
    a, b = _traces(CLIPS[f"clip-{name}"])
    return lambda root, language: comparison(root, language, a, b, "param")


_STEP = tuple(step_json_path(run) for run in STEP_PAIR)
_RMSPROP = _traces(default_pair("rmsprop"))
_MOVES = "scripts/pitb/moves.py"

CONTENTS: dict[str, Callable[[Path, str], str | Content]] = {
    "step-pytorch": partial(
        excerpt, name=_MOVES, start="    parameter = _bias(model)", end="    bias = "
    ),
    "step-burn": partial(
        excerpt,
        name="crates/train-one/src/bin/moves.rs",
        start="    let (problem, mut model, mut optimizer)",
        end="    let key = ",
    ),
    "step-burn-end": partial(
        excerpt,
        name="crates/train-one/src/bin/moves.rs",
        start="    model = optimizer.step",
        end="    json!",
    ),
    "wrong-pytorch": partial(
        excerpt, name=_MOVES, start="    twin = copy.deepcopy", end="    changed = "
    ),
    "wrong-burn": partial(
        excerpt,
        name="crates/train-one/src/bin/moves.rs",
        start="    let other = fresh_model",
        end="    json!",
    ),
    "noassign-code": partial(excerpt, name="crates/train-one/src/bin/noassign.rs", start="fn main"),
    "noassign-error": compiler_error,
    "discard-code": partial(
        excerpt,
        name="crates/train-one/src/bin/discard.rs",
        start="    let (_, loss) = problem",
        end="",
    ),
    "discard-output": discarded,
    "compare-step": lambda root, language: comparison(root, language, *_STEP),
    "compare-rmsprop": lambda root, language: comparison(root, language, *_RMSPROP),
    "compare-clip-norm": _clip("pytorch-global-burn-norm"),
    "compare-clip-global": _clip("pytorch-global-burn-global"),
    "pytorch-defaults": pytorch_defaults,
    "burn-defaults": burn_defaults,
    "runs-aligned": partial(
        excerpt,
        name="config/config.yaml",
        start="    sgdm-aligned:",
        end="",
    ),
    "clip-code": partial(
        excerpt,
        name="crates/pitb-core/src/clip.rs",
        start="        Clip::Global {",
        end="        Clip::Value",
    ),
    "clip-norms": partial(
        excerpt,
        name="crates/pitb-core/src/clip.rs",
        start="impl ModuleVisitor for Powers",
        end="#[derive",
    ),
    "digits-loop": partial(
        excerpt,
        name="examples/digits/digits.py",
        start="    optimizer = ",
        end="        with torch",
    ),
    "digits-burn-loop": partial(
        excerpt,
        name="crates/pitb-record/examples/digits.rs",
        start="    let recording = ",
        end="    let rows = ",
    ),
    "digits-fix": partial(
        excerpt,
        name="crates/pitb-record/examples/digits.rs",
        start="    let config = ",
        end="    let cross_entropy",
    ),
}
