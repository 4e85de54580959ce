"""The two programs of a reproduction: a Rust ``main`` that needs burn alone, a Python script that
needs PyTorch (or timm) alone.

Both print a line for each update and tensor, ``step 1 fc.bias: 9.1e-01 ...``. Where a program
fails, it does so in its library's own way.
"""

import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pitb import rust as rust_writer
from pitb.breadth.code import arguments, number, python_number, uses
from pitb.errors import PitbError

Values = Sequence[float]
VECTORS = ("rosenbrock", "quadratic", "gap")
"""Models whose one parameter is a vector ``x``."""
RUST_DTYPES = {"float32": "F32", "float64": "F64"}
DIGITS = {"float32": 8, "float64": 16}
"""After the point, so that the number is known to its last bit."""


@dataclass(frozen=True)
class Array:
    """Some numbers in PyTorch's layout."""

    name: str
    """``fc.bias``."""
    shape: tuple[int, ...]
    values: Values
    transposed: bool = False
    """Whether burn stores it transposed, as it does the weight of a linear layer."""
    trained: bool = True

    @property
    def identifier(self) -> str:
        """Its name as that of a variable."""
        return re.sub(r"\W", "_", self.name)


@dataclass(frozen=True)
class Setup:
    """What both programs train."""

    about: str
    """What they show, for the first line."""
    dtype: str
    lr: float
    config: str
    """burn's configuration, in Rust."""
    optimizer: str
    """``torch.optim.Adam``."""
    options: Mapping[str, Any]
    """PyTorch's."""
    parameters: tuple[Array, ...]
    steps: int
    gradients: Mapping[str, Sequence[Values | None]] = field(default_factory=dict)
    """By parameter, step by step; None where there is none."""
    state: tuple[str, str] = ("", "")
    """A state that is printed, too: PyTorch's name, and burn's path."""
    own_clip: Mapping[str, float] | None = None
    """burn's own clipping, ``{"Norm": 0.1}``."""
    late: bool = False
    """Whether that is set only after the first update."""
    loop_clip: float | None = None
    """The norm that the training loop allows."""
    whole_norm: bool = False
    """Whether that is the norm of all gradients."""
    resume_after: int = 0
    """The update after which the state goes through its record; 0 for never."""
    inputs: tuple[Array, ...] = ()
    """Of a model."""
    labels: Sequence[int] = ()
    model: str = ""
    """mlp, tied, quadratic, rosenbrock or gap; empty where gradients are given."""
    counted: bool = False
    """Whether the evaluations of the loss are printed, too."""
    printed: tuple[str, ...] = ()
    """The parameters that are printed; all where it is empty."""

    @property
    def shown(self) -> list[str]:
        """The parameters that are printed."""
        return list(self.printed) or [item.name for item in self.parameters]


def rust_values(values: Values) -> str:
    """``[0.5, f64::NAN]``."""
    return f"[{', '.join(number(float(x), 0.0) for x in values)}]"


def python_values(values: Values) -> str:
    """``[0.5, float("nan")]``."""
    return f"[{', '.join(map(python_number, values))}]"


def _indented(text: str, levels: int = 1) -> str:
    return textwrap.indent(text, "    " * levels)


def _head(about: str, mark: str) -> str:
    wrapped = textwrap.wrap(about, 95)
    return "\n".join(f"{mark} {text}" for text in wrapped)


# Rust


def _rust_uses(*texts: str) -> str:
    text = re.sub(r"//.*", "", "\n".join(texts))
    found = set(uses(text))
    known = {
        "burn::module": ("Module", "Param"),
        "burn::optim": ("GradientsParams",),
        "burn::tensor": ("DType", "Device", "FloatDType", "Int", "Tensor", "TensorData"),
        "burn::nn": ("Linear",),
        "burn::nn::loss": ("CrossEntropyLossConfig",),
        "burn::tensor::activation": ("relu",),
    }
    for module, names in known.items():
        here = [name for name in names if re.search(rf"\b{name}\b", text)]
        if module == "burn::optim":
            if ".build()" in text:
                here.append("Optimizer")
            # Those that stand in the module itself share a line.
            own = [line for line in found if re.fullmatch(r"use burn::optim::\w+;", line)]
            here += [line.rpartition("::")[2].rstrip(";") for line in own]
            found -= set(own)
        if len(here) > 1:
            found.add(f"use {module}::{{{', '.join(sorted(here))}}};")
        elif here:
            found.add(f"use {module}::{here[0]};")
    return "\n".join(sorted(found))


def _rust_tensor(dtype: str) -> str:
    return f"""\
fn tensor<const D: usize>(values: &[f64], shape: [usize; D], device: &Device) -> Tensor<D> {{
    let data = TensorData::new(values.to_vec(), shape);
    Tensor::from_data(data, (device, DType::{RUST_DTYPES[dtype]}))
}}
"""


def _rust_show(dtype: str) -> str:
    digits = DIGITS[dtype]
    return f"""\
fn show<const D: usize>(tensor: &Tensor<D>) -> String {{
    let values = tensor.to_data();
    let texts = values.iter::<f64>().map(|x| format!("{{x:.{digits}e}}"));
    texts.collect::<Vec<_>>().join(" ")
}}
"""


def _shape(array: Array) -> str:
    return f"[{', '.join(map(str, array.shape))}]"


def _rust_program(about: str, *items: str) -> str:
    body = "\n".join(items)
    return f"{_head(about, '//!')}\n\n{_rust_uses(body)}\n\n{body}"


def rust(setup: Setup) -> str:
    """The Rust ``main``."""
    if setup.model:
        return _rust_network(setup)
    if _needs_module(setup):
        return _rust_module(setup)
    return _rust_one(setup)


def _needs_module(setup: Setup) -> bool:
    """Whether it takes a module's optimizer, which clips, skips, and keeps records."""
    return bool(
        setup.own_clip
        or setup.loop_clip is not None
        or setup.resume_after
        or len(setup.parameters) > 1
        or any(value is None for given in setup.gradients.values() for value in given)
    )


def _rust_one(setup: Setup) -> str:
    """One tensor, and the optimizer alone."""
    (item,) = setup.parameters
    turned = ".transpose()" if item.transposed else ""
    gradients = ",\n".join(
        f"&{rust_values(values)}" for values in setup.gradients[item.name] if values is not None
    )
    show = "show(&x.clone().transpose())" if item.transposed else "show(&x)"
    print_state = ""
    if setup.state[0]:
        path = setup.state[1]
        print_state = f"""
        if let Some(found) = state.as_ref().and_then(|state| state.{path}.as_ref()) {{
            println!("step {{step}} {setup.state[0]}: {{}}", show(found));
        }}"""
    note = ["    // burn stores the weight of a Linear as [in, out]."] if item.transposed else []
    notes = "\n".join([*note, ""])
    main = f"""\
fn main() {{
    let device = Device::flex();
    let gradients: [&[f64]; {setup.steps}] = [
{_indented(gradients, 2)},
    ];
    let optimizer = {setup.config}.build();
{notes}    let mut x = tensor(&{rust_values(item.values)}, {_shape(item)}, &device){turned};
    let mut state = None;
    for (step, gradient) in (1..).zip(gradients) {{
        let gradient = tensor(gradient, {_shape(item)}, &device){turned};
        (x, state) = optimizer.step({number(setup.lr, 0.0)}, x, gradient, state);
        println!("step {{step}} {item.name}: {{}}", {show});{print_state}
    }}
}}
"""
    return _rust_program(setup.about, _rust_tensor(setup.dtype), _rust_show(setup.dtype), main)


def _rust_module(setup: Setup) -> str:
    """A module of bare parameters whose gradients are given."""
    fields = "\n".join(
        f"    {item.identifier}: Param<Tensor<{len(item.shape)}>>," for item in setup.parameters
    )
    constants = "\n".join(
        f"const {item.identifier.upper()}: [Option<&[f64]>; {setup.steps}] = [\n"
        + "".join(
            f"    {'None' if values is None else f'Some(&{rust_values(values)})'},\n"
            for values in setup.gradients[item.name]
        )
        + "];"
        for item in setup.parameters
    )
    made = "\n".join(
        f"{item.identifier}: Param::from_tensor(\n"
        f"    tensor(&{rust_values(item.values)}, {_shape(item)}, &device.clone().autodiff()),\n),"
        for item in setup.parameters
    )
    registered = "\n".join(
        f"if let Some(values) = {item.identifier.upper()}[step - 1] {{\n"
        f"    let gradient = tensor(values, {_shape(item)}, &device);\n"
        f"    grads.register(model.{item.identifier}.id, gradient);\n}}"
        for item in setup.parameters
    )
    shown = "\n".join(
        f'println!("step {{step}} {item.name}: {{}}", show(&model.{item.identifier}.val()));'
        for item in setup.parameters
    )
    after = ""
    if setup.late and setup.own_clip:
        ((kind, limit),) = setup.own_clip.items()
        clipping = f"GradientClippingConfig::{kind}({number(limit, 0.0)})"
        after += f"""
        if step == 1 {{
            optimizer = optimizer.with_grad_clipping({clipping}.init());
        }}"""
    main = f"""\
#[derive(Module, Debug)]
struct Model {{
{fields}
}}

// The gradient of each update; None where there is none.
{constants}

fn main() {{
    let device = Device::flex();
    let mut model = Model {{
{_indented(made, 2)}
    }};
    let mut optimizer = {setup.config}.init();
    for step in 1..={setup.steps} {{
        let mut grads = GradientsParams::new();
{_indented(registered, 2)}
{_rust_loop_clip(setup)}        model = optimizer.step({number(setup.lr, 0.0)}, model, grads);
{_indented(shown, 2)}{after}{_rust_resume(setup)}
    }}
}}
"""
    return _rust_program(setup.about, _rust_tensor(setup.dtype), _rust_show(setup.dtype), main)


def _rust_resume(setup: Setup) -> str:
    if not setup.resume_after:
        return ""
    return f"""
        if step == {setup.resume_after} {{
            // The state goes through its record, as it does through a file.
            let bytes = optimizer.into_bytes().unwrap();
            optimizer = {setup.config}.init().from_bytes(bytes).unwrap();
        }}"""


def _rust_loop_clip(setup: Setup) -> str:
    """Clipping by the training loop, whose norms are computed in f64 so that none overflows."""
    if setup.loop_clip is None:
        return ""
    limit = number(setup.loop_clip, 0.0)
    groups = [setup.parameters] if setup.whole_norm else [(item,) for item in setup.parameters]
    text = ""
    for i, members in enumerate(groups):
        squares = "\n".join(
            f"if let Some(gradient) = grads.get::<{len(m.shape)}>(model.{m.identifier}.id) {{\n"
            f"    let wide = gradient.cast(FloatDType::F64);\n"
            f"    total += wide.square().sum().into_scalar::<f64>();\n}}"
            for m in members
        )
        scaled = "\n".join(
            f"if let Some(gradient) = grads.remove::<{len(m.shape)}>(model.{m.identifier}.id) {{\n"
            f"    grads.register(model.{m.identifier}.id, gradient.mul_scalar(coefficient));\n}}"
            for m in members
        )
        comment = "// The norm is summed in f64.\n" if i == 0 else ""
        block = (
            f"{comment}let mut total = 0.0;\n{squares}\n"
            f"let coefficient = ({limit} / (total.sqrt() + 1e-6)).min(1.0);\n{scaled}\n"
        )
        text += _indented(block, 2)
    return text


def _rust_network(setup: Setup) -> str:
    """A model, whose gradients are those of its loss."""
    by_name = {item.name: item for item in setup.parameters}
    lbfgs = setup.config.startswith("LBFGS")
    vector = setup.model in VECTORS

    def parameter(name: str) -> str:
        item = by_name[name]
        turned = ".transpose()" if item.transposed else ""
        off = "" if item.trained else ".set_require_grad(false)"
        made = f"tensor(&{rust_values(item.values)}, {_shape(item)}, &device)"
        detached = f"{made}{turned}.detach()" if turned else made
        return f"Param::from_tensor({detached}){off}"

    if vector:
        structure = "#[derive(Module, Debug)]\nstruct Model {\n    x: Param<Tensor<1>>,\n}\n"
        model = f"Model {{ x: {parameter('x')} }}"
    else:
        extra = _extra_layers(setup)
        fields = "".join(f"    {name}: Linear,\n" for name in ("fc1", "fc2", *extra))
        structure = f"#[derive(Module, Debug)]\nstruct Model {{\n{fields}}}\n"
        second = "weight.clone()" if setup.model == "tied" else parameter("fc2.weight")
        model = f"""{{
        let weight = {parameter("fc1.weight")};
        let fc2 = Linear {{ weight: {second}, bias: Some({parameter("fc2.bias")}) }};
        let fc1 = Linear {{ weight, bias: Some({parameter("fc1.bias")}) }};
{_rust_extra(extra, parameter)}        Model {{ {", ".join(("fc1", "fc2", *extra))} }}
    }}"""
    loss = f"""\
impl Model {{
    fn loss(&self) -> Tensor<1> {{
{_indented(_rust_loss(setup), 2)}
    }}
}}
"""
    shown = "\n".join(_rust_shown(name, setup) for name in setup.shown)
    step = f"""\
        let grads = GradientsParams::from_grads(model.loss().backward(), &model);
        model = optimizer.step({number(setup.lr, 0.0)}, model, grads);"""
    count, counter = "", ""
    if setup.counted:
        count = "\n            evaluations += 1;"
        counter = "    let mut evaluations = 0;\n"
        shown += '\nprintln!("step {step} evaluations: {evaluations}");'
    if lbfgs:
        step = f"""\
        let closure = |model: Model| {{{count}
            let loss = model.loss();
            let value = loss.clone().into_scalar::<f64>();
            (value, GradientsParams::from_grads(loss.backward(), &model))
        }};
        (model, _) = optimizer.step({number(setup.lr, 0.0)}, model, closure);"""
    main = f"""\
fn main() {{
    let device = Device::flex().autodiff();
    let mut model = {model};
    let mut optimizer = {setup.config}.init();
{counter}    for step in 1..={setup.steps} {{
{step}
{_indented(shown, 2)}{_rust_resume(setup)}
    }}
}}
"""
    items = (structure, loss, _rust_tensor(setup.dtype), _rust_show(setup.dtype), main)
    return _rust_program(setup.about, *items)


def _extra_layers(setup: Setup) -> list[str]:
    """The layers that the forward pass never calls."""
    layers = dict.fromkeys(item.name.rpartition(".")[0] for item in setup.parameters)
    return [name for name in layers if name not in ("fc1", "fc2")]


def _rust_extra(layers: Sequence[str], parameter: Callable[[str], str]) -> str:
    return "".join(
        f"        // The forward pass never calls it.\n"
        f"        let {name} = Linear {{ weight: {parameter(f'{name}.weight')}, "
        f"bias: Some({parameter(f'{name}.bias')}) }};\n"
        for name in layers
    )


def _rust_loss(setup: Setup) -> str:
    if setup.model == "rosenbrock":
        n = len(setup.parameters[0].values)
        return f"""\
let x = self.x.val();
let here = x.clone().narrow(0, 0, {n - 1});
let valley = x.narrow(0, 1, {n - 1}) - here.clone().square();
let away = here.neg().add_scalar(1.0);
(valley.square().mul_scalar(100.0) + away.square()).sum()"""
    if setup.model == "gap":
        return """\
let x = self.x.val();
let at = x.clone().into_scalar::<f64>();
if at > 5.0 {
    x.mul_scalar(0.25).add_scalar(-1.0).sum()
} else if at > 1.5 {
    x.mul_scalar(f64::NAN).sum()
} else {
    (x.clone().square() - x.mul_scalar(2.0)).sum()
}"""
    by_name = {item.name: item for item in setup.inputs}
    given = "let device = Device::flex().autodiff();"
    if setup.model == "quadratic":
        a, b = by_name["A"], by_name["b"]
        return f"""\
{given}
let a = tensor(&{rust_values(a.values)}, {_shape(a)}, &device);
let b = tensor(&{rust_values(b.values)}, {_shape(b)}, &device);
let x = self.x.val();
let ax = a.matmul(x.clone().unsqueeze_dim(1)).squeeze_dim(1);
(x.clone() * ax).sum().mul_scalar(0.5) - (b * x).sum()"""
    x, labels = by_name["x"], ", ".join(map(str, setup.labels))
    return f"""\
{given}
let x = tensor(&{rust_values(x.values)}, {_shape(x)}, &device);
let labels = TensorData::new(vec![{labels}], [{len(setup.labels)}]);
let labels = Tensor::<1, Int>::from_data(labels, (&device, DType::I64));
let logits = self.fc2.forward(relu(self.fc1.forward(x)));
CrossEntropyLossConfig::new().init(&device).forward(logits, labels)"""


def _rust_shown(name: str, setup: Setup) -> str:
    layer, _, kind = name.rpartition(".")
    if not layer:
        value = f"model.{kind}.val()"
    elif kind == "bias":
        value = f"model.{layer}.bias.as_ref().unwrap().val()"
    else:
        value = f"model.{layer}.weight.val().transpose()"
    return f'println!("step {{step}} {name}: {{}}", show(&{value}));'


# Python


def python(setup: Setup) -> str:
    """The Python script."""
    package = setup.optimizer.partition(".")[0]
    imports = "\n".join(["import torch", *(["import timm.optim"] if package == "timm" else [])])
    digits = DIGITS[setup.dtype]
    show = f"""
def show(tensor):
    return " ".join(f"{{x:.{digits}e}}" for x in tensor.detach().flatten().tolist())
"""
    body = _python_network(setup) if setup.model else _python_module(setup)
    return f"{_head(setup.about, '#')}\n\n{imports}\n\n{show}\n\n{body}"


def _python_tensor(item: Array, dtype: str) -> str:
    shape = "" if len(item.shape) == 1 else f".reshape({', '.join(map(str, item.shape))})"
    return f"torch.tensor({python_values(item.values)}, dtype=torch.{dtype}){shape}"


def _made(setup: Setup, parameters: str) -> str:
    return f"{setup.optimizer}({parameters}, lr={setup.lr!r}{arguments(setup.options)})"


def _python_resume(setup: Setup, parameters: str) -> str:
    if not setup.resume_after:
        return ""
    return f"""\
    if step == {setup.resume_after}:
        # The state goes through its record, as it does through a file.
        state = optimizer.state_dict()
        optimizer = {_made(setup, parameters)}
        optimizer.load_state_dict(state)
"""


def _python_module(setup: Setup) -> str:
    made = "\n".join(
        f"{item.identifier} = torch.nn.Parameter({_python_tensor(item, setup.dtype)})"
        for item in setup.parameters
    )
    constants = "\n".join(
        f"{item.identifier.upper()} = [\n"
        + "".join(
            f"    {'None' if values is None else python_values(values)},\n"
            for values in setup.gradients[item.name]
        )
        + "]"
        for item in setup.parameters
    )
    names = ", ".join(item.identifier for item in setup.parameters)
    set_ = ""
    for item in setup.parameters:
        upper = item.identifier.upper()
        new = f"torch.tensor(values, dtype=torch.{setup.dtype}).reshape({item.identifier}.shape)"
        if any(values is None for values in setup.gradients[item.name]):
            new = f"None if values is None else {new}"
        set_ += f"    values = {upper}[step - 1]\n    {item.identifier}.grad = {new}\n"
    clip = ""
    if setup.own_clip:
        ((kind, limit),) = setup.own_clip.items()
        call = "clip_grad_norm_" if kind == "Norm" else "clip_grad_value_"
        condition, indent = ("    if step > 1:\n", 2) if setup.late else ("", 1)
        calls = [
            f"torch.nn.utils.{call}([{item.identifier}], {limit!r})\n" for item in setup.parameters
        ]
        clip = condition + _indented("".join(calls), indent)
    elif setup.loop_clip is not None:
        groups = [names] if setup.whole_norm else [item.identifier for item in setup.parameters]
        calls = [f"torch.nn.utils.clip_grad_norm_([{g}], {setup.loop_clip!r})\n" for g in groups]
        clip = _indented("".join(calls))
    shown = "".join(
        f'    print(f"step {{step}} {item.name}: {{show({item.identifier})}}")\n'
        for item in setup.parameters
    )
    if setup.state[0]:
        state = setup.state[0]
        shown += f"""\
    found = optimizer.state[{setup.parameters[0].identifier}]["{state}"]
    print(f"step {{step}} {state}: {{show(found)}}")
"""
    return f"""\
# The gradient of each update; None where there is none.
{constants}
{made}
optimizer = {_made(setup, f"[{names}]")}
for step in range(1, {setup.steps + 1}):
{set_}{clip}    optimizer.step()
{shown}{_python_resume(setup, f"[{names}]")}"""


def _python_network(setup: Setup) -> str:
    by_name = {item.name: item for item in setup.parameters}
    inputs = {item.name: item for item in setup.inputs}
    dtype = setup.dtype
    if setup.model in VECTORS:
        made = f"x = torch.nn.Parameter({_python_tensor(by_name['x'], dtype)})\n"
        parameters, shown = "[x]", {"x": "x"}
    else:
        made = ""
        order = ["fc1.weight", "fc1.bias", *(["fc2.weight"] if setup.model == "mlp" else [])]
        extra = [f"{name}.{kind}" for name in _extra_layers(setup) for kind in ("weight", "bias")]
        for name in (*order, "fc2.bias", *extra):
            item = by_name[name]
            off = "" if item.trained else ", requires_grad=False"
            made += f"{item.identifier} = torch.nn.Parameter({_python_tensor(item, dtype)}{off})\n"
        names = [by_name[name].identifier for name in (*order, "fc2.bias", *extra)]
        if setup.model == "tied":
            made += "fc2_weight = fc1_weight\n"
        made += f"parameters = [{', '.join(names)}]\n"
        parameters, shown = "parameters", {n: n.replace(".", "_") for n in setup.shown}
    if setup.model == "rosenbrock":
        loss = """\
    valley, away = x[1:] - x[:-1] ** 2, 1 - x[:-1]
    return (100 * valley**2 + away**2).sum()
"""
    elif setup.model == "gap":
        loss = """\
    if x.item() > 5:
        return (0.25 * x - 1).sum()
    if x.item() > 1.5:
        return (float("nan") * x).sum()
    return (x**2 - 2 * x).sum()
"""
    elif setup.model == "quadratic":
        made += (
            f"A = {_python_tensor(inputs['A'], dtype)}\nb = {_python_tensor(inputs['b'], dtype)}\n"
        )
        loss = "    return 0.5 * (x @ (A @ x)) - b @ x\n"
    else:
        made += f"inputs = {_python_tensor(inputs['x'], dtype)}\n"
        made += f"labels = torch.tensor([{', '.join(map(str, setup.labels))}])\n"
        loss = """\
    hidden = torch.relu(torch.nn.functional.linear(inputs, fc1_weight, fc1_bias))
    logits = torch.nn.functional.linear(hidden, fc2_weight, fc2_bias)
    return torch.nn.functional.cross_entropy(logits, labels)
"""
    count = "    global evaluations\n    evaluations += 1\n" if setup.counted else ""
    made += "evaluations = 0\n" if setup.counted else ""
    closure = f"""

def closure():
{count}    optimizer.zero_grad()
    value = loss()
    value.backward()
    return value
"""
    prints = "".join(
        f'    print(f"step {{step}} {name}: {{show({variable})}}")\n'
        for name, variable in shown.items()
    )
    if setup.counted:
        prints += '    print(f"step {step} evaluations: {evaluations}")\n'
    return f"""\
{made}

def loss():
{loss}{closure}

optimizer = {_made(setup, parameters)}
for step in range(1, {setup.steps + 1}):
    optimizer.step(closure)
{prints}{_python_resume(setup, parameters)}"""


# Schedules


def rust_schedule(about: str, config: Mapping[str, Any], steps: int) -> str:
    """A Rust ``main`` that prints the rate of each update."""
    made = rust_schedule_config(config)
    used = "\n".join(uses(made))
    return f"""\
{_head(about, "//!")}

{used}

fn main() {{
    let mut scheduler = {made}.init().unwrap();
    for step in 1..={steps} {{
        println!("step {{step}} rate: {{:.16e}}", scheduler.step().base());
    }}
}}
"""


def rust_schedule_config(config: Mapping[str, Any]) -> str:
    """A configuration of a schedule in Rust.

    Raises:
        PitbError: burn has no such schedule.
    """
    return rust_writer.scheduler(config, {})


def python_schedule(about: str, node: Mapping[str, Any], base: float, steps: int) -> str:
    """A Python script that prints the rate of each update."""
    return f"""\
{_head(about, "#")}

import torch
from torch.optim import lr_scheduler

optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr={base!r})
scheduler = {python_schedule_code(node)}
for step in range(1, {steps + 1}):
    print(f"step {{step}} rate: {{float(optimizer.param_groups[0]['lr']):.16e}}")
    optimizer.step()
    scheduler.step()
"""


def python_schedule_code(node: Mapping[str, Any]) -> str:
    """The construction of a schedule in Python.

    Raises:
        PitbError: Its function is none that is known.
    """
    written = []
    for key, value in node.items():
        if key == "class":
            continue
        if key == "schedulers":
            text = f"[{', '.join(python_schedule_code(child) for child in value)}]"
        elif key == "lr_lambda":
            if value[0] != "constant":
                raise PitbError(f"there is no way known to write the function {value[0]}")
            text = f"lambda step: {value[1]!r}"
        else:
            text = repr(value)
        written.append(f"{key}={text}")
    if node["class"] == "ChainedScheduler":
        return f"lr_scheduler.ChainedScheduler({', '.join(written)})"
    return f"lr_scheduler.{node['class']}(optimizer, {', '.join(written)})"
