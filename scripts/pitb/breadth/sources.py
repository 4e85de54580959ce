"""Where a difference stands in the source of each library as it is installed here.

A place is declared by a pattern, not by a line, so that it stays true as versions move: a pattern
that matches no line, or more than one, is an error that names it.
"""

import ast
import importlib.util
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pitb import cargo
from pitb.errors import PitbError
from pitb.registry import Hyperparameter, Optimizer, by_pytorch_name

ROOT = Path(__file__).parents[3]
"""The project's folder."""
OPTIM = "burn-optim"


@dataclass(frozen=True)
class Spot:
    """One line of a library."""

    root: str
    """``torch`` or ``timm``; the name of a crate; or the project itself."""
    file: str
    """Below the package, or below the crate's folder."""
    pattern: str
    """A regular expression that one line alone matches."""
    within: str = ""
    """The function or class that the line belongs to: a name in Python, the text of an item's first
    line in Rust."""


def torch_spot(file: str, pattern: str, within: str = "") -> Spot:
    """A line of ``torch/<file>``."""
    return Spot("torch", file, pattern, within)


def timm_spot(file: str, pattern: str, within: str = "") -> Spot:
    """A line of ``timm/optim/<file>``."""
    return Spot("timm", f"optim/{file}", pattern, within)


def burn_spot(file: str, pattern: str, within: str = "") -> Spot:
    """A line of ``burn-optim-<version>/src/<file>``."""
    return Spot(OPTIM, f"src/{file}", pattern, within)


def _lbfgs(pytorch: Spot, burn: Spot) -> dict[str, dict[str, Spot]]:
    return {"pytorch": {"LBFGS": pytorch}, "burn": {"LBFGS": burn}}


_CLIP_COEFFICIENT = torch_spot(
    "nn/utils/clip_grad.py", r"clip_coef = max_norm / \(total_norm \+ 1e-6\)"
)
_STEP = r"fn step<const D: usize>\("
SPOTS: Mapping[str, Mapping[str, Mapping[str, Spot]]] = {
    "interpolation": {
        "pytorch": {
            "Adam": torch_spot("optim/adam.py", r"exp_avg\.lerp_\(", "_single_tensor_adam"),
            "AdamW": torch_spot("optim/adam.py", r"exp_avg\.lerp_\(", "_single_tensor_adam"),
            "RMSprop": torch_spot(
                "optim/rmsprop.py", r"grad_avg\.lerp_\(", "_single_tensor_rmsprop"
            ),
            "Adafactor": torch_spot(
                "optim/_adafactor.py", r"variance\.lerp_\(", "_single_tensor_adafactor"
            ),
            "Muon": torch_spot("optim/_muon.py", r"buf\.lerp_\(", "_single_tensor_muon"),
            "Lion": timm_spot("lion.py", r"exp_avg\.lerp_\(", "_single_tensor_lion"),
            "Lamb": timm_spot("lamb.py", r"exp_avg\.lerp_\(", "_single_tensor_lamb"),
            "Adan": timm_spot("adan.py", r"exp_avg\.lerp_\(", "_single_tensor_adan"),
        },
        "burn": {
            "Adam": burn_spot("optim/adam.rs", r"\.mul_scalar\(self\.beta_1\)"),
            "AdamW": burn_spot("optim/adamw.rs", r"\.mul_scalar\(self\.beta_1\)"),
            "RMSprop": burn_spot("optim/rmsprop.rs", r"grad_avg\.mul_scalar\(alpha\)\.add\("),
            "Adafactor": burn_spot(
                "optim/adafactor.rs", r"\.add\(second_moment\.mul_scalar\(new_weight\)\)"
            ),
            "Muon": burn_spot(
                "optim/momentum.rs", r"\.add\(state\.velocity\.mul_scalar\(self\.momentum\)\)"
            ),
            "Lion": burn_spot("optim/lion.rs", r"\.add\(grad\.mul_scalar\(1\.0 - self\.beta_2\)\)"),
            "Lamb": burn_spot("optim/lamb.rs", r"\.mul_scalar\(self\.beta_1\)"),
            "Adan": burn_spot(
                "optim/adan.rs", r"\.add\(grad\.clone\(\)\.mul_scalar\(1\.0 - self\.beta_1\)\)"
            ),
        },
    },
    "folded": {
        "pytorch": {
            "Adam": torch_spot(
                "optim/adam.py",
                r"denom = \(exp_avg_sq\.sqrt\(\) / bias_correction2_sqrt\)\.add_\(eps\)",
            )
        },
        "burn": {"Adam": burn_spot("optim/adam.rs", r"let combined_factor = ")},
    },
    "amsgrad_nan": {
        "pytorch": {
            "": torch_spot(
                "optim/adam.py", r"torch\.maximum\(max_exp_avg_sqs\[i\], exp_avg_sq, out"
            )
        },
        "burn": {
            "Adam": burn_spot("optim/adam.rs", r"max_v\.max_pair\("),
            "AdamW": burn_spot("optim/adamw.rs", r"max_v\.max_pair\("),
        },
    },
    "center_product": {
        "pytorch": {
            "RMSprop": torch_spot(
                "optim/rmsprop.py", r"square_avg\.addcmul\(grad_avg, grad_avg, value=-1\)"
            )
        },
        "burn": {"RMSprop": burn_spot("optim/rmsprop.rs", r"\.sub\(grad_avg\.clone\(\)\.square\(")},
    },
    "factored_epsilon": {
        "pytorch": {
            "Adafactor": torch_spot(
                "optim/_adafactor.py",
                r"var_estimate\.clamp_\(min=eps1 \* eps1\)",
                "_single_tensor_adafactor",
            )
        },
        "burn": {
            "Adafactor": burn_spot("optim/adafactor.rs", r"\.add_scalar\(self\.epsilon_1\)"),
        },
    },
    "nan_in_bound": {
        "pytorch": {
            "Adafactor": torch_spot(
                "optim/_adafactor.py", r"denom = max\(1\.0, ", "_single_tensor_adafactor"
            )
        },
        "burn": {"Adafactor": burn_spot("optim/adafactor.rs", r"\.clamp_min\(1\.0\)")},
    },
    "momentum": {
        "pytorch": {"Muon": torch_spot("optim/_muon.py", r"buf\.lerp_\(", "_single_tensor_muon")},
        "burn": {
            "Muon": burn_spot(
                "optim/momentum.rs", r"\.add\(state\.velocity\.mul_scalar\(self\.momentum\)\)"
            )
        },
    },
    "newton_schulz": {
        "pytorch": {"Muon": torch_spot("optim/_muon.py", r"ortho_grad = grad.*bfloat16")},
        "burn": {"Muon": burn_spot("optim/muon.rs", r"let a_matrix = x\.clone\(\)\.matmul\(x_t\)")},
    },
    "fan": {
        "pytorch": {"Muon": torch_spot("optim/_muon.py", r"A, B = param_shape\[:2\]")},
        "burn": {"Muon": burn_spot("optim/muon.rs", r"self\.adjust_lr\(lr, &tensor\.shape\(\)\)")},
    },
    "trust_ratio": {
        "pytorch": {
            "Lamb": timm_spot(
                "lamb.py", r"if weight_decay != 0 or always_adapt:", "_single_tensor_lamb"
            )
        },
        "burn": {"Lamb": burn_spot("optim/lamb.rs", r"let update = if self\.use_trust_ratio")},
    },
    "step_counter": {
        "pytorch": {
            "Lamb": timm_spot("lamb.py", r"group\['step'\]\.add_\(1\)"),
            "Adan": timm_spot("adan.py", r"group\['step'\] \+= 1"),
        },
        "burn": {
            "Lamb": burn_spot("optim/lamb.rs", r"state\.time \+= 1"),
            "Adan": burn_spot("optim/adan.rs", r"state\.time \+= 1"),
        },
    },
    "own_clip_denominator": {
        "pytorch": {"": _CLIP_COEFFICIENT},
        "burn": {
            "": burn_spot("grad_clipping/base.rs", r"threshold / norm\.add_scalar\(min_positive\)")
        },
    },
    "own_clip_limit": {
        "pytorch": {
            "": torch_spot("nn/utils/clip_grad.py", r"^    max_norm: float,", "clip_grad_norm_")
        },
        "burn": {
            "": burn_spot(
                "grad_clipping/base.rs", r"^    Norm\(f32\)", "pub enum GradientClippingConfig {"
            )
        },
    },
    "late_clipping": {
        "pytorch": {"": torch_spot("nn/utils/clip_grad.py", r"^def clip_grad_norm_\(")},
        "burn": {
            "": burn_spot(
                "optim/module/module_optimizer.rs",
                r"\}\) => \(optim, grad_clipping, Some\(state\)\)",
            )
        },
    },
    "tied": {
        "pytorch": {"": torch_spot("nn/modules/module.py", r"if v is None or v in memo:")},
        "burn": {
            "": burn_spot(
                "optim/module/module_optimizer.rs", r"let grad = self\.grads\.remove\(id\);"
            ),
            "LBFGS": burn_spot("optim/lbfgs.rs", r"let t = param\.val\(\)\.inner\(\);"),
        },
    },
    "resumed_dtype": {
        "pytorch": {
            "": torch_spot(
                "optim/optimizer.py",
                r"value\.to\(dtype=param\.dtype, device=param\.device\)",
                "_process_value_according_to_param_policy",
            ),
        },
        "burn": {
            "": Spot(
                "burn-derive",
                "src/record_state/mod.rs",
                r"let #ident = <#ty>::from_data\(src\.take_tensor\(prefix, #leaf\)\?, device\);",
            )
        },
    },
    "flat_gradient": _lbfgs(
        torch_spot("optim/lbfgs.py", r"view = p\.new\(p\.numel\(\)\)\.zero_\(\)"),
        burn_spot("optim/lbfgs.rs", r"if let Some\(g\) = self\.grads\.get::<D>\(param\.id\)"),
    ),
    "lbfgs.line_search_tolerance": _lbfgs(
        torch_spot("optim/lbfgs.py", r"tolerance_change=1e-9, max_ls=25", "_strong_wolfe"),
        burn_spot("optim/lbfgs.rs", r"diff \* d_norm < tolerance_change"),
    ),
    "lbfgs.last_evaluation": _lbfgs(
        torch_spot("optim/lbfgs.py", r"if n_iter != max_iter:"),
        burn_spot("optim/lbfgs.rs", r"let \(new_loss, new_grads\) = closure\(module\.clone\(\)\);"),
    ),
    "lbfgs.prev_loss": _lbfgs(
        torch_spot("optim/lbfgs.py", r"^ +prev_loss = loss$"),
        burn_spot("optim/lbfgs.rs", r"self\.state\.prev_loss = Some\(loss\);"),
    ),
    "lbfgs.nan_in_min_max": _lbfgs(
        torch_spot("optim/lbfgs.py", r"return min\(max\(min_pos, xmin_bound\), xmax_bound\)"),
        burn_spot("optim/lbfgs.rs", r"min_pos\.max\(min_bound\)\.min\(max_bound\)$"),
    ),
    "lbfgs.nan_loss": _lbfgs(
        torch_spot("optim/lbfgs.py", r"or f_new >= bracket_f\[low_pos\]"),
        burn_spot("optim/lbfgs.rs", r"let armijo_holds = "),
    ),
    "lbfgs.negative_max_ls": _lbfgs(
        torch_spot("optim/lbfgs.py", r"while not done and ls_iter < max_ls:"),
        burn_spot("optim/lbfgs.rs", r"self\.config\.max_eval\.unwrap\(\) - current_evals,"),
    ),
}
"""By choice of equation, side, and PyTorch's name of the optimizer; the empty one is for all."""

SCHEDULER_SPOTS: Mapping[str, tuple[Spot, Spot]] = {
    "composed-cosine-past-end": (
        torch_spot(
            "optim/lr_scheduler.py",
            r"elif \(self\.last_epoch - 1 - self\.T_max\) % \(2 \* self\.T_max\) == 0:",
            "CosineAnnealingLR",
        ),
        burn_spot("lr_scheduler/composed.rs", r"SchedulerReduction::Prod => step \* lr"),
    ),
    "composed-cosine-minimum": (
        torch_spot(
            "optim/lr_scheduler.py", r"\* \(group\[\"lr\"\] - self\.eta_min\)", "CosineAnnealingLR"
        ),
        burn_spot("lr_scheduler/composed.rs", r"SchedulerReduction::Prod => step \* lr"),
    ),
    "composed-in-sequence-first": (
        torch_spot("optim/lr_scheduler.py", r"self\._schedulers\[idx\]\._initial_step\(\)"),
        burn_spot("lr_scheduler/sequential.rs", r"let lr = self\.schedulers\[index\]\.step\(\);"),
    ),
    "sequential-in-sequence": (
        torch_spot("optim/lr_scheduler.py", r"self\._schedulers\[idx\]\._initial_step\(\)"),
        burn_spot("lr_scheduler/sequential.rs", r"let lr = self\.schedulers\[index\]\.step\(\);"),
    ),
    "sequential-in-composed": (
        torch_spot("optim/lr_scheduler.py", r"^ +scheduler\._update_lr\(0\)"),
        burn_spot("lr_scheduler/composed.rs", r"SchedulerReduction::Prod => step \* lr"),
    ),
    "sequential-multiplicative": (
        torch_spot("optim/lr_scheduler.py", r"group\[\"lr\"\] \* lmbda", "MultiplicativeLR"),
        burn_spot("lr_scheduler/sequential.rs", r"let lr = self\.schedulers\[index\]\.step\(\);"),
    ),
}
"""Of the schedules that differ by formula: PyTorch's place and burn's."""


def locate(spot: Spot, name: str) -> str:
    """``torch/optim/adam.py:471``.

    Raises:
        PitbError: The pattern of the difference ``name`` does not match one line alone.
    """
    path, label = _file(spot)
    try:
        lines = _lines(path)
    except OSError as error:
        raise PitbError(f"{name}: {label} cannot be read: {error.strerror}") from None
    first, last = _region(path, spot.within, f"{name}: {label}")
    found = [i for i in range(first, last + 1) if re.search(spot.pattern, lines[i - 1])]
    if len(found) != 1:
        where = f" of {spot.within}" if spot.within else ""
        raise PitbError(
            f"{name}: the pattern {spot.pattern!r} matches {len(found)} lines{where} in {label}, "
            "and must match one"
        )
    return f"{label}:{found[0]}"


def place(choice: str, side: str, optimizers: tuple[str, ...]) -> tuple[str, ...]:
    """Where a choice of equation stands for each of ``optimizers``, each place once.

    Raises:
        PitbError: No place is declared for one of them, or a pattern does not match.
    """
    if choice == "float32":
        spots = [spot for name in optimizers for spot in _float32(name, side)]
        return tuple(dict.fromkeys(locate(spot, f"{choice} on {side}'s side") for spot in spots))
    declared = SPOTS.get(choice, {}).get(side, {})
    found = []
    for name in optimizers:
        spot = declared.get(name, declared.get(""))
        if spot is None:
            raise PitbError(f"no place in the source of {side} is declared for {choice} of {name}")
        found.append(locate(spot, f"{choice} on {side}'s side"))
    return tuple(dict.fromkeys(found))


def default_places(optimizer: Optimizer, option: str) -> tuple[str, str]:
    """The lines of PyTorch's constructor and of burn's configuration that hold an option.

    The second is empty where burn has no such field.
    """
    pytorch = locate(argument_spot(optimizer, option), f"{optimizer.pytorch} {option}")
    item = next((i for i in optimizer.hyperparameters if i.pytorch == option), None)
    if item is None:
        return pytorch, ""
    return pytorch, locate(field_spot(optimizer, item), f"{optimizer.burn_config} {item.burn}")


def argument_spot(optimizer: Optimizer, option: str) -> Spot:
    """The line of PyTorch's constructor that has the option, ``eps`` of ``eps[0]``."""
    root = optimizer.module.partition(".")[0]
    path = Path(inspect.getfile(optimizer.constructor().__init__.__code__))
    file = path.relative_to(package(root)[0]).as_posix()
    name = option.partition("[")[0]
    return Spot(root, file, rf"^ +{name}\b *[:=,]", f"{optimizer.pytorch}.__init__()")


def field_spot(optimizer: Optimizer, item: Hyperparameter) -> Spot:
    """The line of burn's configuration that has a hyper-parameter."""
    path = item.burn.split(".")
    config, field = optimizer.burn_config, path[0]
    if item.when:
        config, field = item.when, path[-1]
    elif len(path) == 2 and path[0] == "weight_decay":
        config, field = ("WeightDecayConfig", path[1]) if item.off is None else (config, path[0])
    return config_field(config, field)


def config_field(config: str, field: str) -> Spot:
    """The line of a field of one of burn's configurations.

    Raises:
        PitbError: burn has no such configuration, or several.
    """
    folder = package(OPTIM)[0]
    head = f"pub struct {config} {{"
    files = [f for f in sorted(folder.glob("src/**/*.rs")) if head in "\n".join(_lines(f))]
    if len(files) != 1:
        raise PitbError(f"{len(files)} files of burn-optim have a {config}, and one must")
    file = files[0].relative_to(folder).as_posix()
    return Spot(OPTIM, file, rf"^    (pub )?{field}: ", head)


def field_words(spot: Spot) -> str:
    """What burn's own comment says of the field at ``spot``."""
    path, label = _file(spot)
    line = int(locate(spot, label).rpartition(":")[2])
    words: list[str] = []
    for text in reversed(_lines(path)[: line - 1]):
        stripped = text.strip()
        if stripped.startswith("///"):
            words.insert(0, stripped[3:].strip())
        elif not stripped.startswith("#["):
            break
    return " ".join(filter(None, words))


def _float32(name: str, side: str) -> Iterator[Spot]:
    from pitb.reference.descriptions import describe

    optimizer = by_pytorch_name(name)
    kept = describe("burn", name).float32
    for item in optimizer.hyperparameters:
        if item.pytorch not in kept:
            continue
        if side == "pytorch":
            yield argument_spot(optimizer, item.pytorch)
        elif item.burn == "momentum.momentum":
            yield burn_spot("optim/momentum.rs", r"momentum: f32,", "pub struct Momentum {")
        elif item.burn == "weight_decay.penalty":
            yield burn_spot("optim/decay.rs", r"penalty: f32,", "pub struct WeightDecayConfig {")
        else:
            yield config_field(optimizer.burn_config, item.burn)


@cache
def package(root: str) -> tuple[Path, str]:
    """The folder of a package or crate, and how it is called in a place."""
    if root in ("torch", "timm"):
        found = importlib.util.find_spec(root)
        if found is None or not found.submodule_search_locations:
            raise PitbError(f"{root} is not installed")
        return Path(found.submodule_search_locations[0]), root
    crates = _crates()
    if root not in crates:
        raise PitbError(f"the build has no crate {root}")
    folder = crates[root]
    return folder, folder.name


@cache
def _crates() -> Mapping[str, Path]:
    found = cargo.crates(ROOT)
    return {name: folder for name, (folder, _) in found.items() if name.startswith("burn")}


def _file(spot: Spot) -> tuple[Path, str]:
    folder, label = package(spot.root)
    return folder / spot.file, spot.file if label == "." else f"{label}/{spot.file}"


@cache
def _lines(path: Path) -> tuple[str, ...]:
    return tuple(path.read_text(encoding="utf-8").splitlines())


@cache
def _region(path: Path, within: str, name: str) -> tuple[int, int]:
    """The first and last line, from 1, in which a pattern may match."""
    lines = _lines(path)
    if path.suffix == ".py":
        return _python_region(path, within, name) if within else (1, len(lines))
    tests = next((i for i, line in enumerate(lines) if line == "#[cfg(test)]"), len(lines))
    if not within:
        return 1, tests
    heads = [i for i in range(tests) if within in lines[i]]
    if len(heads) != 1:
        raise PitbError(f"{name} has {len(heads)} lines with {within!r}, and must have one")
    start = heads[0]
    indent = re.match(r" *", lines[start])
    end = f"{indent[0] if indent else ''}}}"
    last = next((i for i in range(start, tests) if lines[i].startswith(end)), start)
    return start + 1, last + 1


def _python_region(path: Path, within: str, name: str) -> tuple[int, int]:
    """The lines of a function or class; ``Adam.__init__()`` are the lines of its arguments."""
    outer, _, inner = within.removesuffix("()").partition(".")
    tree: ast.AST = ast.parse("\n".join(_lines(path)))
    kinds = (ast.FunctionDef, ast.ClassDef)
    for part in filter(None, (outer, inner)):
        found = [n for n in ast.walk(tree) if isinstance(n, kinds) and n.name == part]
        if len(found) != 1:
            raise PitbError(f"{name} has {len(found)} functions or classes {part}, not one")
        tree = found[0]
    assert isinstance(tree, kinds)
    if within.endswith("()"):
        assert isinstance(tree, ast.FunctionDef)
        return tree.lineno, tree.body[0].lineno - 1
    return tree.lineno, tree.end_lineno or tree.lineno
