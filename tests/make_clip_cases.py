"""What PyTorch's clip_grad_norm_ does in the cases that the burn side is tested against.

``python tests/make_clip_cases.py`` writes them to crates/pitb-core/tests/clip_cases.json, which a
test holds against the installed PyTorch. Numbers that JSON lacks are text: "nan", "inf", "-inf".
"""

import json
import math
from pathlib import Path

import torch

from pitb import a1

FILE = Path(__file__).parent.parent / "crates/pitb-core/tests/clip_cases.json"
NAMES = list(a1.parameters())


def ramp(scale: float) -> dict[str, torch.Tensor]:
    """A gradient for every parameter of A1, of both signs, none of them zero."""
    gradients = {}
    for i, (name, values) in enumerate(a1.parameters().items()):
        # Sixteenths of alternating sign, so that every processor makes the same ones.
        k = torch.arange(values.size, dtype=torch.float32).reshape(values.shape)
        gradients[name] = scale * (i + 1) * (1 - 2 * (k % 2)) * (k % 7 + 1) / 16
    return gradients


def with_value(value: float) -> dict[str, torch.Tensor]:
    """The ramp with one element replaced."""
    gradients = ramp(0.125)
    gradients["fc1.bias"][3] = value
    return gradients


def only(*names: str) -> dict[str, torch.Tensor]:
    """The ramp for some parameters; the others have no gradient, as frozen ones have none."""
    return {name: gradient for name, gradient in ramp(0.125).items() if name in names}


CASES = {
    "cap below the norm": (ramp(0.125), 0.1),
    "cap above the norm": (ramp(0.125), 1e3),
    "one parameter": (only("fc2.bias"), 0.01),
    "frozen first layer": (only("fc2.weight", "fc2.bias"), 0.1),
    "no gradient": (only(), 0.1),
    "all gradients zero": (ramp(0.0), 0.1),
    "nan": (with_value(math.nan), 0.1),
    "inf": (with_value(math.inf), 0.1),
    "minus inf": (with_value(-math.inf), 0.1),
}


def plain(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def flat(tensor: torch.Tensor) -> list[float | str]:
    return [plain(value) for value in tensor.reshape(-1).tolist()]


def clipped(gradients: dict[str, torch.Tensor], max_norm: float) -> tuple[float, dict]:
    parameters = {
        name: torch.nn.Parameter(torch.from_numpy(v)) for name, v in a1.parameters().items()
    }
    for name, gradient in gradients.items():
        parameters[name].grad = gradient.clone()
    total = torch.nn.utils.clip_grad_norm_(parameters.values(), max_norm)
    after = {name: p.grad for name, p in parameters.items() if p.grad is not None}
    return total.item(), after


def cases() -> list[dict]:
    made = []
    for name, (gradients, max_norm) in CASES.items():
        total, after = clipped(gradients, max_norm)
        made.append(
            {
                "name": name,
                "max_norm": max_norm,
                "gradients": {key: flat(value) for key, value in gradients.items()},
                "total_norm": plain(total),
                "clipped": {key: flat(value) for key, value in after.items()},
            }
        )
    return made


if __name__ == "__main__":
    FILE.write_text(json.dumps(cases(), indent=1) + "\n", encoding="utf-8")
