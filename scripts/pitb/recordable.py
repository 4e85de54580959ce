"""What can be recorded of a PyTorch training: names, states, configuration; and what cannot."""

import fnmatch
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pitb import trace
from pitb.errors import PitbError
from pitb.registry import plain

if TYPE_CHECKING:
    import torch


def named_parameters(model: "torch.nn.Module") -> dict[str, "torch.nn.Parameter"]:
    """All parameters under their names in the ``state_dict``, a tied one under each, without the
    prefixes of wrappers.

    Raises:
        PitbError: There is none.
    """
    module = unwrapped(model)
    found = {
        name.replace("_orig_mod.", ""): parameter
        for name, parameter in module.named_parameters(remove_duplicate=False)
    }
    if not found:
        raise PitbError(f"the model {type(module).__name__} has no parameters")
    return found


def unwrapped(model: Any) -> Any:
    """The module within ``torch.compile`` and ``DistributedDataParallel``."""
    import torch

    wrappers = (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)
    while True:
        if hasattr(model, "_orig_mod"):
            model = model._orig_mod
        elif isinstance(model, wrappers):
            model = model.module
        else:
            return model


def states(
    named: dict[str, "torch.nn.Parameter"], optimizers: Sequence["torch.optim.Optimizer"]
) -> list[tuple[str, str, "torch.Tensor"]]:
    """State, tensor and value of all that optimizers keep, sorted by state, so that both sides
    write them in one order. Lists, and what is no number, are left out.

    L-BFGS keeps one state of all parameters: its vectors are cut into tensors, its numbers have an
    empty name, and of its history there are the length and the newest pair.
    """
    import torch

    found: dict[str, list[tuple[str, torch.Tensor]]] = {}
    for optimizer in optimizers:
        if isinstance(optimizer, torch.optim.LBFGS):
            found |= _lbfgs_states(optimizer, named)
    apart = [item for item in optimizers if not isinstance(item, torch.optim.LBFGS)]
    for name, parameter in named.items():
        for optimizer in apart:
            for state, value in optimizer.state.get(parameter, {}).items():
                if isinstance(value, torch.Tensor):
                    found.setdefault(state, []).append((name, value.detach()))
                elif isinstance(value, (int, float)) and not isinstance(value, bool):
                    found.setdefault(state, []).append((name, _number(value)))
    return [(state, name, value) for state in sorted(found) for name, value in found[state]]


def _number(value: float) -> "torch.Tensor":
    import torch

    return torch.tensor(value, dtype=torch.int64 if isinstance(value, int) else torch.float64)


def _lbfgs_states(
    optimizer: "torch.optim.LBFGS", named: dict[str, "torch.nn.Parameter"]
) -> dict[str, list[tuple[str, "torch.Tensor"]]]:
    import torch

    (group,) = optimizer.param_groups
    names = {id(value): name for name, value in reversed(named.items())}  # the first one
    trained = [names.get(id(value)) for value in group["params"]]
    sizes = [value.numel() for value in group["params"]]
    found: dict[str, list[tuple[str, torch.Tensor]]] = {}
    for name, value in optimizer.state[group["params"][0]].items():
        if name in ("old_dirs", "old_stps") and value is not None:
            found[f"{name}.len"] = [("", _number(len(value)))]
            value = value[-1] if value else None
        if isinstance(value, torch.Tensor) and value.ndim:
            found[name] = [
                (tensor, piece.detach().view_as(named[tensor]))
                for tensor, piece in zip(trained, value.split(sizes), strict=True)
                if tensor is not None  # one that is not to be recorded
            ]
        elif isinstance(value, torch.Tensor):
            found[name] = [("", value.detach())]
        elif isinstance(value, (int, float)):
            found[name] = [("", _number(value))]
    return found


def configuration(
    optimizers: Sequence["torch.optim.Optimizer"], named: dict[str, "torch.nn.Parameter"]
) -> dict[str, Any]:
    """Class and options of the first group, resolved, under PyTorch's names; and where there are
    more groups, those of each, with the names of its parameters.
    """
    names = {id(parameter): name for name, parameter in reversed(named.items())}
    groups = []
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            options = {
                key: value
                for key, value in plain({k: v for k, v in group.items() if k != "params"}).items()
                if key in optimizer.defaults and key != "lr"
            }
            groups.append(
                {
                    "parameters": [names[id(parameter)] for parameter in group["params"]],
                    "optimizer": type(optimizer).__name__,
                    "options": options,
                    "lr": float(group["lr"]),
                }
            )
    first = groups[0]
    found = {key: first[key] for key in ("optimizer", "options", "lr")}
    return {**found, **({"groups": groups[1:]} if groups[1:] else {})}


def options_of(optimizers: Sequence["torch.optim.Optimizer"]) -> dict[str, Any]:
    """Every option of every group but the rate, numbers one by one, ``betas[0]``."""
    found: dict[str, Any] = {}
    groups = [(item, group) for item in optimizers for group in item.param_groups]
    for index, (optimizer, group) in enumerate(groups):
        prefix = "" if index == 0 else f"groups[{index - 1}]."
        for key in optimizer.defaults:
            value = group.get(key)
            if key == "lr":
                continue
            if isinstance(value, (list, tuple)):
                found |= {f"{prefix}{key}[{i}]": item for i, item in enumerate(value)}
            else:
                found[f"{prefix}{key}"] = value
    return {key: float(value) if is_number(value) else value for key, value in found.items()}


def is_number(value: Any) -> bool:
    single = getattr(value, "numel", lambda: 0)() == 1
    return single or (isinstance(value, (int, float)) and not isinstance(value, bool))


def matches(name: str, patterns: list[str] | None) -> bool:
    return patterns is None or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def check_parameter(name: str, parameter: "torch.nn.Parameter") -> None:
    import torch

    what = None
    if isinstance(parameter, torch.nn.parameter.UninitializedParameter):
        what = "is not initialized; call the model once before"
    elif hasattr(parameter, "to_local"):
        what = "is distributed over processes"
    elif parameter.layout != torch.strided:
        what = f"is sparse ({parameter.layout})"
    elif parameter.device.type == "meta":
        what = "is on the meta device and has no values"
    elif dtype_name(parameter) not in trace.DTYPES:
        what = f"is of dtype {dtype_name(parameter)}, which a trace cannot hold"
    if what is not None:
        raise PitbError(f"the parameter {name} {what}; leave it out by tensors=[...], if need be")


def check_optimizers(optimizers: Sequence[Any], named: dict[str, "torch.nn.Parameter"]) -> None:
    if not optimizers:
        raise PitbError("there is no optimizer to record")
    known = {id(parameter) for parameter in named.values()}
    for index, optimizer in enumerate(optimizers):
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if id(parameter) not in known:
                    shape = tuple(parameter.shape)
                    raise PitbError(
                        f"{called(optimizers, index)} trains a parameter of shape {shape} that "
                        "the model does not have; give record() the model that holds all of them"
                    )


def called(optimizers: Sequence[Any], index: int) -> str:
    place = f" (number {index + 1})" if len(optimizers) > 1 else ""
    return f"{type(optimizers[index]).__name__}{place}"


def prepare(folder: Path, overwrite: bool) -> None:
    """Make the folder; delete a trace in it where that is wanted.

    Raises:
        PitbError: It cannot be made, or holds a trace.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        found = sorted([*folder.glob("part-*.parquet"), *folder.glob(".part-*.parquet.part")])
        if found and not overwrite:
            raise PitbError(
                f"{folder} holds a trace already ({found[0].name}); record into another folder, "
                "or with overwrite=True"
            )
        # From the last to the first, so that what a kill leaves is a trace without its end.
        for path in reversed(found):
            path.unlink()
    except OSError as error:
        raise PitbError(f"cannot record into {folder}: {error.strerror or error}") from error


def rank() -> int:
    import torch.distributed as distributed

    started = distributed.is_available() and distributed.is_initialized()
    return int(distributed.get_rank()) if started else 0


def dtype_name(tensor: "torch.Tensor") -> str:
    return str(tensor.dtype).removeprefix("torch.")
