"""Record both libraries' calls and defaults, so that commands know them without the libraries.

Of every optimizer, learning-rate scheduler and way of clipping: PyTorch's parameters in order, with
their defaults; of every optimizer burn's configuration as it prints and serialises it.
"""

import argparse
import importlib
import inspect
import json
import tomllib
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from pitb.errors import run_main
from pitb.files import read_text, write_json
from pitb.registry import optimizers, plain

EXAMPLES = """examples:
  python scripts/record_libraries.py --burn results/evidence/defaults/burn.json --lock Cargo.lock
  python scripts/record_libraries.py --burn results/evidence/defaults/burn.json --lock Cargo.lock \\
      --out scripts/pitb/libraries.json"""


def parameters(call: Callable[..., Any]) -> list[dict[str, Any]]:
    """The parameters of a call in order; those without ``default`` are required."""
    found = []
    for item in inspect.signature(call).parameters.values():
        if item.kind in (item.VAR_POSITIONAL, item.VAR_KEYWORD):
            continue
        entry: dict[str, Any] = {"name": item.name}
        if item.kind == item.KEYWORD_ONLY:
            entry["keyword_only"] = True
        if item.default is not item.empty:
            entry["default"] = plain(item.default)
        found.append(entry)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--burn", type=Path, required=True, help="burn's defaults (optdef)")
    parser.add_argument("--lock", type=Path, required=True, help="Cargo.lock, for burn's version")
    parser.add_argument("--out", type=Path, default=Path("/dev/stdout"), help="JSON file to write")
    arguments = parser.parse_args()

    from torch.nn import utils
    from torch.optim import lr_scheduler

    packages = tomllib.loads(read_text(arguments.lock))["package"]
    burn = next(item["version"] for item in packages if item["name"] == "burn")
    schedulers = {
        name: parameters(item)
        for name, item in sorted(vars(lr_scheduler).items())
        if inspect.isclass(item)
        and item.__module__ == lr_scheduler.__name__
        and hasattr(item, "step")
        and name.strip("_") == name != "LRScheduler"
    }
    for item in optimizers():
        importlib.import_module(item.module)
    found = {
        "comment": "Written by scripts/record_libraries.py (make libraries); not to be edited.",
        "versions": {
            "torch": metadata.version("torch"),
            "timm": metadata.version("timm"),
            "burn": burn,
        },
        "pytorch": {
            item.pytorch: {
                "module": item.module,
                "parameters": parameters(item.constructor()),
                "defaults": item.defaults(),
            }
            for item in optimizers()
        },
        "schedulers": schedulers,
        "clips": {
            name: parameters(getattr(utils, name))
            for name in ("clip_grad_norm_", "clip_grad_value_")
        },
        "burn": json.loads(read_text(arguments.burn)),
    }
    write_json(arguments.out, found)


if __name__ == "__main__":
    run_main(main)
