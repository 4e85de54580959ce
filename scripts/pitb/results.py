"""Where things stand below the folder of results."""


def pair_name(a: str, b: str) -> str:
    """The name of the comparison of two runs, ``<side>.<name>--<side>.<name>``."""
    return f"{a}--{b}".replace("/", ".")


def trace_path(run: str) -> str:
    """Of a run's trace."""
    return f"traces/{run}.parquet"


def comparison_path(a: str, b: str) -> str:
    """Of a comparison of two runs."""
    return f"comparisons/{pair_name(a, b)}.parquet"


def evidence_path(name: str) -> str:
    """Of a piece of evidence, what a page shows that is no trace."""
    return f"evidence/{name}.json"


def step_json_path(run: str) -> str:
    """Of the JSON of a train-step run."""
    return evidence_path(f"train-step/{run}")


SCOPES = ("breadth-slice", "breadth")
"""The folders of the breadth: the slice of it, and all."""
FINDINGS = (".md", ".zh.md", ".csv", ".parquet")
"""What the findings are written as."""
EXPLAINED = (".md", ".zh.md", ".json", ".svg")
"""What an explanation is written as."""


def explanation_path(a: str, b: str, suffix: str) -> str:
    """Of an explanation of two runs, with one of the suffixes of `EXPLAINED`."""
    return f"explain/{pair_name(a, b)}{suffix}"


PLOTS = ("loss", "steps", "tensors")
"""The pictures of a comparison: both losses, differences by step, and by step and tensor."""


def plot_path(a: str, b: str, kind: str) -> str:
    """Of a picture of a comparison, one of `PLOTS`."""
    return f"plots/{pair_name(a, b)}.{kind}.svg"


def remaining_path(run: str) -> str:
    """Of the picture of what remains of the differences from one run."""
    return f"plots/{run.replace('/', '.')}.remaining.svg"
