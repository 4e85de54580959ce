"""The two pages: which tables each has, and what each is computed from.

How they are computed stands in the modules beside this one; this much the pipeline needs to know
before anything is trained.
"""

from dataclasses import dataclass

from pitb.results import comparison_path, evidence_path, trace_path

STEP_PAIR = ("pytorch/sgd", "burn/sgd")
F32_PAIR = ("pytorch/sgd", "burn/sgd-f32-inputs")

OPTIMIZERS = ("sgdm", "adamw", "rmsprop", "adagrad")
"""The runs of each side with only the learning rate (and SGD's momentum) given."""
ABLATIONS = (
    ("adamw", "only-eps"),
    ("adamw", "only-wd"),
    ("rmsprop", "only-eps"),
    ("rmsprop", "only-mom"),
)
CLIPS = {
    "clip-pytorch-global-burn-norm": ("pytorch/clip-global", "burn/clip-norm"),
    "clip-pytorch-per-parameter-burn-norm": ("pytorch/clip-per-parameter", "burn/clip-norm"),
    "clip-pytorch-global-burn-global": ("pytorch/clip-global", "burn/clip-global"),
}


def default_pair(name: str) -> tuple[str, str]:
    """Both sides of an optimizer with the defaults left alone."""
    return f"pytorch/{name}", f"burn/{name}"


def aligned_pair(name: str) -> tuple[str, str]:
    """An optimizer with PyTorch's defaults written out on burn's side."""
    return f"pytorch/{name}", f"burn/{name}-aligned"


def ablation_pair(name: str, item: str) -> tuple[str, str]:
    """An optimizer with one item aligned."""
    return f"pytorch/{name}", f"burn/{name}-{item}"


@dataclass(frozen=True)
class Page:
    """A page: its tables, and the runs, pairs of runs and evidence they are computed from."""

    tables: tuple[str, ...]
    traces: tuple[str, ...]
    comparisons: tuple[tuple[str, str], ...]
    evidence: tuple[str, ...]

    def needs(self) -> list[str]:
        """All files it is computed from, below the folder of results."""
        return [
            *map(trace_path, self.traces),
            *(comparison_path(a, b) for a, b in self.comparisons),
            *map(evidence_path, self.evidence),
        ]


PAGES = {
    "one-step": Page(
        tables=("train-step", "f32-inputs", "moves", "wrong-model", "noassign", "discard"),
        traces=(STEP_PAIR[1], F32_PAIR[1]),
        comparisons=(STEP_PAIR, F32_PAIR),
        evidence=("moves/pytorch", "moves/burn", "noassign", "discard", "must-use"),
    ),
    "optimizer-defaults": Page(
        tables=(
            "defaults",
            "default-differences",
            "mismatch",
            "a1",
            "rmsprop-steps",
            "sgdm-steps",
            "adagrad-steps",
            "ablation",
            "explanations",
            *CLIPS,
            "aligned",
        ),
        traces=(
            *(run for name in OPTIMIZERS for run in default_pair(name)),
            *(run for pair in CLIPS.values() for run in pair),
        ),
        comparisons=(
            *map(default_pair, OPTIMIZERS),
            *map(aligned_pair, OPTIMIZERS),
            *(ablation_pair(*ablation) for ablation in ABLATIONS),
            *CLIPS.values(),
        ),
        evidence=("defaults/pytorch", "defaults/burn"),
    ),
}
"""Each page by its name, which is that of its folder and of its published figures."""
