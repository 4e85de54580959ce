import json
import math
import re
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pitb import cli, declared, libraries, rust
from pitb.errors import PitbError
from pitb.lint import sources
from pitb.lint import values as rust_values
from pitb.port import emit, reverse
from pitb.port.assemble import assemble
from pitb.port.schedules import NotCarriedOver, translate
from pitb.port.source import parse
from pitb.port.translate import expressions
from pitb.registry import by_pytorch_name, optimizers
from pitb.schedulers import reference_rates
from pitb.schedulers.cases import CASES
from pitb.schedulers.reference import Refused, check_burn

NAMES = [entry.pytorch for entry in optimizers()]


def port(text, **options):
    return assemble(parse(text, "train.py"), **options)


def code(text, **options):
    return emit.rust_of(port(text, **options))


def lines(text, **options):
    return [line.strip() for line in code(text, **options).splitlines()]


def burn_of(text, **options):
    (unit,) = port(text, **options).units
    return unit.ported.groups[0].burn


# One call


def test_the_first_example():
    found = code(
        "torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1)"
    )
    assert "pub const LEARNING_RATE: f64 = 0.0003;" in found
    assert (
        """\
    AdamWConfig::new()
        .with_beta_1(0.9)
        .with_beta_2(0.95) // burn's default: 0.999
        .with_epsilon(1e-8) // burn's default: 1e-5
        .with_weight_decay(0.1) // burn's default: 0.0001
        .with_cautious_weight_decay(false)
        .with_amsgrad(false)
        .with_grad_clipping(None)
        .init()
"""
        in found
    )
    assert "optimizer.step(LEARNING_RATE, model, grads)" in found


@pytest.mark.parametrize("name", NAMES)
def test_every_field_is_stated(name):
    entry = by_pytorch_name(name)
    extra = ", max_grad_norm=None" if name == "Lamb" else ""
    found = code(f"{entry.module}.{name}(model.parameters(){extra})")
    for field in declared.structs()[entry.burn_config]:
        assert len(re.findall(rf"^ {{8}}\.with_{field.name}\(", found, re.MULTILINE)) == 1
    # A comment stands at each line whose value is not burn's default, and at no other.
    for line in found.splitlines():
        match = re.fullmatch(r" {8}\.with_(\w+)\((.*)\)( // burn's default: (.*))?", line)
        if match:
            default = rust.default_of(entry.burn_config, match[1], libraries.recorded()["burn"])
            kind = declared.field(entry.burn_config, match[1]).type
            text = rust.shown(kind, default, rust.Style(libraries.recorded()["burn"]))
            assert (match[2] != text) == (match[4] is not None)
            assert match[4] in (None, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SGD(p, 0.1)", [".with_momentum(None)", ".with_weight_decay(None)"]),
        ("SGD(p, 0.1, 0.9)", [".with_dampening(0.0) // burn's default: 0.1"]),
        ("SGD(p, 0.1, 0.9, 0.5)", [".with_dampening(0.5) // burn's default: 0.1"]),
        ("RMSprop(p)", [".with_momentum(0.0) // burn's default: 0.9"]),
        ("Adafactor(p)", [".with_epsilon_1(1.1920929e-7) // burn's default: 1e-30"]),
        ("LBFGS(p, max_iter=8)", [".with_max_eval(Some(10)) // burn's default: None"]),
        ("LBFGS(p, max_eval=3)", [".with_max_eval(Some(3)) // burn's default: None"]),
        ("Muon(p)", [".with_weight_decay(Some(WeightDecayConfig::new(0.1))) "
                     "// burn's default: None", ".with_nesterov(true),"]),
        ("Muon(p, momentum=0.8)", [".with_momentum(0.8) // burn's default: 0.95"]),
        ("Muon(p, adjust_lr_fn='match_rms_adamw')",
         [".with_adjust_lr_fn(AdjustLrFn::MatchRmsAdamW) // burn's default: AdjustLrFn::Original"]),
        ("timm.optim.Adan(p, betas=(0.9, 0.8, 0.7))",
         [".with_beta_3(0.7) // burn's default: 0.99"]),
        ("Adam(p, lr=1)", ["pub const LEARNING_RATE: f64 = 1.0;"]),
        ("Adam(p, lr=torch.tensor(0.1))", ["pub const LEARNING_RATE: f64 = 0.10000000149011612;"]),
        ("Adam(p, lr=torch.tensor(0.1, dtype=torch.float64))",
         ["pub const LEARNING_RATE: f64 = 0.1;"]),
        ("Adam(p, lr=1e-3 * 2 / 4 + 0 ** 2 - -1)", ["pub const LEARNING_RATE: f64 = 1.0005;"]),
        ("Adam(p, lr=max(1e-3, float('1e-2')))", ["pub const LEARNING_RATE: f64 = 0.01;"]),
        ("Adam(p, **{'lr': 0.5})", ["pub const LEARNING_RATE: f64 = 0.5;"]),
        ("Adam(*[p, 0.5])", ["pub const LEARNING_RATE: f64 = 0.5;"]),
        ("Adam(p, decoupled_weight_decay=True)", ["AdamWConfig::new()"]),
        ("torch.optim.adamw.AdamW(p)", ["AdamWConfig::new()"]),
        ("optim.AdamW(p)", ["AdamWConfig::new()"]),
    ],
)  # fmt: skip
def test_calls(text, expected):
    found = lines(text)
    for line in expected:
        assert line in found, "\n".join(found)
    assert port(text).exit_code == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("AdamW(p, maximize=True)", "maximize=True"),
        ("Adagrad(p, initial_accumulator_value=0.1)", "initial_accumulator_value=0.1"),
        ("Muon(p, adjust_lr_fn='spectral_unclamped')", "spectral_unclamped"),
        ("timm.optim.Lamb(p)", "max_grad_norm=1.0"),
        ("timm.optim.Lion(p, caution=True)", "caution=True"),
        ("torch.optim.Adadelta(p)", "burn has no counterpart of torch.optim.Adadelta"),
        ("torch.optim.AdmW(p)", "burn has no counterpart of torch.optim.AdmW"),
        ("AdamW(p, eps=1e-60)", "1e-60 is 0 in f32"),
        ("AdamW(p, weight_decay=1e39)", "1e+39 is infinity in f32"),
        ("Adam(p, maximize=args.maximize)", "its value depends on the run"),
        ("ReduceLROnPlateau(o)", "burn's step() is told no metric"),
    ],
)
def test_what_cannot_be_carried_over_is_named(text, said):
    found = port(text)
    assert found.exit_code == 1
    assert said in found.all_lost[0]
    assert "train.py, line 1" in found.all_lost[0]
    comments = " ".join(
        line.removeprefix("// ") for line in emit.rust_of(found).splitlines() if line[:2] == "//"
    )
    assert f"not carried over: {found.all_lost[0]}" in comments


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("AdamW(p, lr=3e-4", "line 1: this is not Python: '(' was never closed"),
        ("AdamW(p, lr=9**9**9)", "line 1: 9**9**9 is too large"),
        ("AdamW(p, lr=10.0**999)", "line 1: 10.0**999 is too large"),
        ("AdamW(p, lr=(-1)**0.5)", "line 1: (-1)**0.5 is a complex number"),
        ("AdamW(p,\n lr=1/0)", "line 2: 1/0 divides by zero"),
        ("AdamW(p, lr=1 % 0)", "line 1: 1 % 0 divides by zero"),
        ("AdamW(p, lr=" + "-" * 500 + "1)", "nested too deeply"),
        ("AdamW(p, lr=" + "(" * 500 + "1" + ")" * 500 + ")", "too many nested parentheses"),
        ("AdamW(p, lr=" + "1+" * 60000 + "1)", "nested too deeply"),
        ("AdamW(p, lr=1, lr=2)", "line 1: AdamW is given 'lr' twice"),
        ("AdamW(p, 1, lr=2)", "line 1: AdamW is given 'lr' twice"),
        ("AdamW(p, lr=1, **{'lr': 2})", "line 1: AdamW is given 'lr' twice"),
        ("AdamW(p, **{'lr': 2, 'lr': 3})", "line 1: the key 'lr' is given twice"),
        ("AdamW(p, weight_decy=2)", "AdamW has no option 'weight_decy'; nearest: 'weight_decay'"),
        ("AdamW(p, *a)", "line 1: which options *a holds is known only when the program runs"),
        ("AdamW(p, **k)", "line 1: which options **k holds is known only when the program runs"),
        ("AdamW(p, 1, 2, 3, 4, 5, 6)", "takes 6 positional arguments"),
        ("AdamW()", "line 1: AdamW needs 'params', which is not given"),
        ("AdamW([])", "refuses an empty list of parameters"),
        ("AdamW([{'lr': 1}])", "a parameter group of AdamW has no 'params'"),
        ("AdamW(p, lr='a')", "line 1: lr of AdamW is a number, and 'a' is given"),
        ("AdamW(p, lr=None)", "line 1: lr of AdamW is a number, and None is given"),
        ("AdamW(p, lr=lambda x: x)", "lr of AdamW is no number"),
        ("AdamW(p, amsgrad='yes')", "amsgrad of AdamW is True or False"),
        ("AdamW(p, betas=(0.9,))", "betas of AdamW is a tuple of 2 numbers, and (0.9,) is given"),
        ("AdamW(p, betas=0.9)", "betas of AdamW is a tuple of 2 numbers, and 0.9 is given"),
        ("AdamW(p, betas=(0.9, 1.5))", "AdamW takes 0.0 <= betas[1] < 1.0, and betas=(0.9, 1.5)"),
        ("AdamW(p, lr=-1)", "AdamW takes 0.0 <= lr, and lr=-1 is given"),
        ("AdamW(p, lr=float('nan'))", "AdamW takes 0.0 <= lr, and lr=nan is given"),
        ("AdamW([{'params': p, 'lr': -1}])", "group p: PyTorch's AdamW takes 0.0 <= lr"),
        ("Adafactor(p, d=0.5)", "Adafactor takes 1.0 <= d, and d=0.5 is given"),
        ("Adafactor(p, eps=(-1, 1))", "PyTorch's Adafactor refuses eps[0] is not None"),
        ("SGD(p, nesterov=True)", "SGD refuses nesterov and (momentum <= 0 or dampening != 0)"),
        ("LBFGS([{'params': a}, {'params': b}])", "LBFGS takes no parameter groups"),
        ("clip_grad_norm_(p, -1)", "max_norm of clip_grad_norm_ is a number of 0 or more"),
        ("clip_grad_norm_(p, 1, norm_type=0)", "norm_type of clip_grad_norm_ is a number greater"),
        ("StepLR(o)", "StepLR needs 'step_size'"),
        ("lr_scheduler.StepLRR(o)", "nearest: 'StepLR'"),
        ("torch.nn.utils.clip_grad_norm(p, 1)", "nearest: 'clip_grad_norm_'"),
        ("SequentialLR(o, [x], [])", "x of SequentialLR is no scheduler that is known"),
        ("StepLR(o, 3, last_epoch=4)", "last_epoch=4 takes a run up again"),
        ("print(3)", "there is no call of an optimizer, a scheduler or a clip in it"),
        ("adamw(p)", "is adamw in line 1 meant to be AdamW"),
        ("", "there is no call"),
        ("x = '\0'", "null"),
    ],
)  # fmt: skip
def test_a_mistake_gives_one_sentence(text, said):
    with pytest.raises(PitbError) as caught:
        code(text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("train.py")


# Files


def test_aliases_of_imports():
    for text in (
        "import torch.optim as o\no.AdamW(p)",
        "from torch.optim import AdamW as A\nA(p)",
        "from torch import optim as x\nx.AdamW(p)",
        "import torch as t\nt.optim.AdamW(p)",
        "from torch.optim import *\nAdamW(p)",
        "import torch\nA = torch.optim.AdamW\nA(p)",
        "def f():\n    from torch.optim import AdamW\n    return AdamW(p)",
    ):
        assert "AdamWConfig::new()" in code(text)


def test_names_of_other_libraries_are_none():
    for text in ("from mine import AdamW\nAdamW(p)", "class AdamW: pass\nAdamW(p)"):
        with pytest.raises(PitbError, match="there is no call"):
            port(text)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("LR = 0.1\ntorch.optim.SGD(p, lr=LR)", 0.1),
        ("LR, WD = 0.1, 0.2\ntorch.optim.SGD(p, lr=WD)", 0.2),
        ("LR: float = 0.1\ndef f():\n    torch.optim.SGD(p, lr=LR * 2)", 0.2),
        ("def f():\n    lr = 0.1\n    torch.optim.SGD(p, lr=lr)", 0.1),
        ("lr = 0.5\ndef f():\n    lr = 0.1\n    torch.optim.SGD(p, lr=lr)", 0.1),
        ("C = dict(lr=0.1)\ntorch.optim.SGD(p, lr=C['lr'])", 0.1),
        ("C = {'lr': 0.1}\ntorch.optim.SGD(p, **C)", 0.1),
        ("A = 0.1\nB = A\ntorch.optim.SGD(p, lr=B)", 0.1),
        ("import math\ntorch.optim.SGD(p, lr=math.sqrt(0.25))", 0.5),
        ("D = True\ntorch.optim.SGD(p, lr=0.1 if D else 0.2)", 0.1),
    ],
)
def test_constants(text, rate):
    text = f"import torch\n{text}"
    assert port(text).units[0].ported.lr == rate


@pytest.mark.parametrize(
    "text",
    [
        "lr = 0.1\nlr = 0.2\ntorch.optim.SGD(p, lr=lr)",
        "lr = 0.1\nlr *= 2\ntorch.optim.SGD(p, lr=lr)",
        "for lr in (1, 2):\n    torch.optim.SGD(p, lr=lr)",
        "def f(lr=0.1):\n    torch.optim.SGD(p, lr=lr)",
        "lr = lr\ntorch.optim.SGD(p, lr=lr)",
        "torch.optim.SGD(p, lr=lr)\nlr = 0.1",
        "lr = 0.1\ndef g():\n    global lr\n    lr = 0.2\ntorch.optim.SGD(p, lr=lr)",
        "a = b\nb = a\nlr = a\ntorch.optim.SGD(p, lr=lr)",
        "with f() as lr:\n    torch.optim.SGD(p, lr=lr)",
    ],
)
def test_what_depends_on_the_run_becomes_a_parameter(text):
    found = code(f"import torch\n{text}")
    assert re.search(r"pub fn update<M: Module>\([^)]*\blr: f64", found)
    assert "`lr` of line" in found


def test_placeholders_have_the_types_of_the_fields():
    found = code(
        "import torch\n"
        "torch.optim.Adam(p, lr=args.lr, betas=args.betas, amsgrad=c['a'], weight_decay=wd())"
    )
    for part in ("args_betas_0: f32", "args_betas_1: f32", "c_a: bool", "wd: f32"):
        assert part in found
    assert ".with_weight_decay(Some(WeightDecayConfig::new(wd)))" in found
    found = code("torch.optim.LBFGS(p, max_iter=n, line_search_fn=args.search)")
    assert "pub fn optimizer(n: usize, args_search: LineSearchFn) -> LBFGS" in found
    assert ".with_max_eval(Some(n * 5 / 4))" in found


def test_names_of_parameters_are_different_and_no_words_of_rust():
    text = "torch.optim.Adam(p, lr=args.lr, eps=args_lr, weight_decay=type, betas=(model, 0.5))"
    found = code(text)
    for part in ("args_lr: f64", "args_lr_2: f32", "value_type: f32", "model_value: f32"):
        assert part in found


def test_a_large_file_takes_little_time():
    lines_ = "".join(f"x{i} = {i}\nmodel{i}.step(x{i})\n" for i in range(20000))
    start = time.process_time()
    found = port(f"import torch\n{lines_}o = torch.optim.AdamW(p, lr=x7)")
    assert found.units[0].ported.lr == 7
    assert time.process_time() - start < 10


GROUPS = """
import torch
opt = torch.optim.AdamW([
    {"params": model.base.parameters()},
    {"params": model.head.parameters(), "lr": 1e-2, "weight_decay": 0.0},
], lr=1e-3)
"""


def test_groups():
    found = code(GROUPS)
    assert 'ParamGroup::from_regex(r"^head(\\.|$)")' in found
    assert ".with_group(group_1(), config_1.build(), None)" in found
    assert "LrSchedulerConfig::Constant(0.001)" in found
    assert ".with_group(group_1(), LrSchedulerConfig::Constant(0.01))" in found
    assert "optimizer.step(schedule.step(), model, grads)" in found
    first, second = port(GROUPS).units[0].ported.groups
    assert (first.burn["weight_decay"], second.burn["weight_decay"]) == (0.01, 0.0)


def test_groups_that_the_source_does_not_show():
    found = code("torch.optim.AdamW([{'params': decay}, {'params': rest, 'weight_decay': 0}])")
    assert "pub fn optimizer(group_1: ParamGroup) -> ModuleOptimizer" in found
    assert "LEARNING_RATE" in found  # the rates are the same
    assert "- `group_1`: `rest` of line 1" in found


def test_a_list_of_groups_that_is_not_known_is_said():
    (unit,) = port("import torch\ngroups = split(model)\ntorch.optim.AdamW(groups)").units
    assert "if it has groups" in unit.all_notes[0]


def test_groups_that_are_added_later():
    text = "o = torch.optim.SGD(m.a.parameters(), lr=0.1)\n{}o.add_param_group({})\n"
    (unit,) = port(text.format("", "{'params': m.b.parameters(), 'lr': 0.2}")).units
    assert [(g.field, g.lr) for g in unit.ported.groups] == [("a", 0.1), ("b", 0.2)]
    found = port(text.format("for x in y:\n    ", "{'params': m.b.parameters()}"))
    assert "line 3: a group is added while the program runs" in found.all_lost[0]
    with pytest.raises(PitbError, match=r"line 2: the group .* has no 'params'"):
        port(text.format("", "group"))


@pytest.mark.parametrize(
    "change",
    [
        "for g in o.param_groups:\n    g['lr'] = 0.2",
        "for g in o.param_groups:\n    g['lr'] *= 0.5",
        "o.param_groups[0]['lr'] = 0.2",
    ],
)
def test_rates_that_the_source_sets_itself_are_named(change):
    found = port(f"o = torch.optim.SGD(p, lr=0.1)\n{change}")
    assert "['lr'] is set while the program runs" in found.all_lost[0]
    other = port(f"o = torch.optim.SGD(p, lr=0.1)\n{change.replace('o.', 'other.')}")
    assert not other.all_lost


def test_schedules_state_their_defaults():
    found = code("o = torch.optim.SGD(p, lr=0.1)\nStepLR(o, 3)\n")
    assert "StepLrSchedulerConfig::new(0.1, 3).with_gamma(0.1)" in found
    found = code("o = torch.optim.SGD(p, lr=0.1)\nCosineAnnealingLR(o, 3)\n")
    assert ".with_min_lr(0.0)" in found


CLIP = "import torch\nopt = torch.optim.{}(model.parameters())\ntorch.nn.utils.{}\n"


@pytest.mark.parametrize(
    ("optimizer", "clip", "has", "lacks"),
    [
        ("Adam", "clip_grad_norm_(model.parameters(), 1)",
         ["clip_grad_norm(&model, &mut grads, 1.0);", "norms.joined.sqrt()",
          ".with_grad_clipping(None)"], ["assert!"]),
        ("Adam", "clip_grad_norm_(model.parameters(), 1, 'inf')", ["is_nan()"], ["sqrt"]),
        ("Adam", "clip_grad_norm_(model.parameters(), 1, 3)", ["powf(1.0 / 3.0)"], ["sqrt"]),
        ("Adam", "clip_grad_norm_(model.parameters(), 1, error_if_nonfinite=True)",
         ["assert!"], []),
        ("Adam", "clip_grad_norm_(model.parameters(), args.clip)", ["args_clip: f64"], []),
        ("Adam", "clip_grad_value_(model.parameters(), 0.5)",
         [".with_grad_clipping(Some(GradientClippingConfig::Value(0.5)))"], ["mut grads"]),
        ("Muon", "clip_grad_value_(model.parameters(), 0.5)",
         ["clip_grad_value(&model, &mut grads, 0.5);"], ["GradientClippingConfig"]),
        ("LBFGS", "clip_grad_norm_(model.parameters(), 1)",
         ["let (loss, mut grads) = closure(model.clone());"], []),
    ],
)  # fmt: skip
def test_clips(optimizer, clip, has, lacks):
    found = code(CLIP.format(optimizer, clip))
    assert all(part in found for part in has), found
    assert not any(part in found for part in lacks), found


def test_clips_of_a_part_or_of_nothing_known_are_named():
    found = port(CLIP.format("Adam", "clip_grad_norm_(model.head.parameters(), 1)"))
    assert "clips model.head.parameters() alone" in found.all_lost[0]
    assert "pub fn clip_grad_norm" in emit.rust_of(found)
    assert "clip_grad_norm(&model," not in emit.rust_of(found)
    # What else is lost does not take the clipping away.
    text = CLIP.format("Adam", "clip_grad_norm_(model.parameters(), 1)")
    found = port(f"{text}for g in opt.param_groups:\n    g['lr'] = 0\n")
    assert found.exit_code == 1
    assert "clip_grad_norm(&model," in emit.rust_of(found)
    found = port(
        "import torch\na = torch.optim.Adam(x.parameters())\nb = torch.optim.Adam(y.parameters())\n"
        "torch.nn.utils.clip_grad_norm_(z.parameters(), 1)\n"
        "torch.nn.utils.clip_grad_norm_(y.parameters(), 2)\n"
    )
    assert "of several optimizers, is not known" in found.all_lost[0]
    assert [len(unit.clips) for unit in found.units] == [0, 1]
    assert "pub mod a {" in emit.rust_of(found)


@pytest.mark.parametrize(
    ("loop", "clips"),
    [
        ("a.step()", [1, 0]),
        ("b.step()", [0, 1]),
        ("scaler.step(a)", [1, 0]),
        ("a.step()\n    b.step()", [0, 0]),
        ("pass", [0, 1]),
    ],
)
def test_a_clip_is_of_the_optimizer_that_steps_after_it(loop, clips):
    found = port(
        "import torch\n"
        "a = torch.optim.Adam([{'params': m.body.parameters()}, {'params': m.head.parameters()}])\n"
        "b = torch.optim.SGD(m.parameters(), 0.1)\n"
        "for x in data:\n    b.zero_grad()\n"
        f"    torch.nn.utils.clip_grad_norm_(m.parameters(), 1)\n    {loop}\n"
    )
    assert [len(unit.clips) for unit in found.units] == clips
    assert ("of several optimizers, is not known" in " ".join(found.all_lost)) == (clips == [0, 0])


LOOP = """
import torch
from torch.optim.lr_scheduler import StepLR, LinearLR, SequentialLR, CosineAnnealingLR
def main():
    opt = torch.optim.SGD(model.parameters(), lr=0.5)
    {made}
    for epoch in range(9):
        for batch in data:
            opt.step()
            {inner}
        {outer}
"""


@pytest.mark.parametrize(
    ("inner", "outer", "stepped"),
    [("s.step()", "pass", "update"), ("pass", "s.step()", "epoch")],
)
def test_a_schedule_advances_where_the_source_has_it(inner, outer, stepped):
    text = LOOP.format(made="s = StepLR(opt, 3)", inner=inner, outer=outer)
    (unit,) = port(text).units
    assert unit.stepped == stepped
    assert unit.schedules == [{"Step": {"initial_lr": 0.5, "step_size": 3, "gamma": 0.1}}]
    found = emit.rust_of(port(text))
    assert ("rates: &ModuleLearningRate" in found) == (stepped == "epoch")


def test_schedules_within_schedules():
    made = "w = LinearLR(opt, 0.1)\n    s = SequentialLR(opt, [w, CosineAnnealingLR(opt, 9)], [5])"
    (unit,) = port(LOOP.format(made=made, inner="s.step()", outer="pass")).units
    ((kind, held),) = unit.schedules[0].items()
    assert (kind, held["milestones"], len(held["schedulers"])) == ("Sequential", [5], 2)


def test_two_schedulers_of_one_optimizer_are_chained():
    made = "s = StepLR(opt, 3)\n    t = StepLR(opt, 4)"
    (unit,) = port(LOOP.format(made=made, inner="pass", outer="pass")).units
    assert unit.schedules[0]["Composed"]["reduction"] == "Prod"


def test_a_schedule_of_what_depends_on_the_run():
    found = code("o = torch.optim.SGD(p, lr=args.lr)\nCosineAnnealingLR(o, T_max=args.epochs)")
    assert "pub fn schedule(args_lr: f64, args_epochs: usize) -> ModuleLrScheduler" in found
    assert "CosineAnnealingLrSchedulerConfig::new(args_lr, args_epochs)" in found


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        ("lambda epoch: 0.5", "Constant"),
        ("lambda epoch: 0.95 ** epoch", "Exponential"),
        ("lambda t: min((t + 1) ** -0.5, (t + 1) * 40 ** -1.5)", "Noam"),
        ("lambda t: min((t + 1) * 40 ** -1.5, (1 + t) ** -0.5)", "Noam"),
        ("decay", "Exponential"),
    ],
)
def test_functions_of_known_shapes(function, kind):
    text = (
        "def decay(epoch):\n    'Down.'\n    return 0.9 ** epoch\n"
        f"o = torch.optim.SGD(p, lr=0.1)\nLambdaLR(o, {function})"
    )
    assert list(port(text).units[0].schedules[0]) == [kind]


@pytest.mark.parametrize("function", ["lambda t: 1 / (1 + t)", "f", "lambda t: t ** 0.9"])
def test_functions_of_other_shapes_are_named(function):
    found = port(f"o = torch.optim.SGD(p, lr=0.1)\nLambdaLR(o, {function})")
    assert "holds no function" in found.all_lost[0]


# Schedules against the cases of both libraries


@pytest.mark.parametrize("case", [c for c in CASES if c.pytorch], ids=lambda case: case.name)
def test_a_schedule_has_pytorchs_rates(case):
    wanted = reference_rates(case, "pytorch")
    base = case.base[case.group]
    try:
        found = translate(case.pytorch, base, case.steps)
    except NotCarriedOver:
        # Either PyTorch refuses it, or burn has none: then so say the cases.
        refused = wanted.error is not None or not 0 < case.pytorch.get("start_factor", 1) <= 1
        assert refused or case.note or _refused(case.burn)
        return
    check_burn(found.config)
    mine = type(case)(**{**case.__dict__, "burn": found.config})
    rates = reference_rates(mine, "burn").rates
    assert len(rates) == case.steps
    for k, (a, b) in enumerate(zip(wanted.rates, rates, strict=False)):
        assert math.isclose(a, b, rel_tol=1e-11, abs_tol=1e-16), f"update {k + 1}"


def _refused(config):
    try:
        check_burn(config)
    except Refused:
        return True
    return False


EQUIVALENT = {
    "noam", "noam-defaults", "noam-one", "noam-no-model", "sequential-noam",  # factor and model
    "sequential-of-one", "sequential-milestones-zero", "sequential-milestones-equal",
}  # fmt: skip
"""Cases whose own configuration is another of the same rates."""


@pytest.mark.parametrize("case", [c for c in CASES if c.pytorch and c.burn], ids=lambda c: c.name)
def test_a_schedule_is_the_one_of_the_cases(case):
    if _refused(case.burn) or case.name in EQUIVALENT:
        return
    try:
        found = translate(case.pytorch, case.base[case.group], case.steps)
    except NotCarriedOver as refusal:
        assert case.note or "PyTorch" in str(refusal)
        return
    assert _rounded(found.config) == _rounded(case.burn)


def _rounded(value):
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(f"{value:.9e}") if isinstance(value, float) else value


@pytest.mark.parametrize("name", libraries.recorded()["schedulers"])
def test_every_scheduler_of_pytorchs_is_tried(name):
    from pitb.port.schedules import _MAKERS

    assert name in _MAKERS
    assert any(name in json.dumps(case.pytorch) for case in CASES)


# Round trips


def number(name, optimizer):
    """Values of an option that both libraries take."""
    small = st.floats(1e-12, 0.5).map(lambda x: float(f"{x:.4g}"))
    if name in ("betas",):
        count = len(libraries.pytorch_defaults(optimizer)["betas"])
        return st.lists(small, min_size=count, max_size=count)
    if name == "eps" and optimizer == "Adafactor":
        return st.lists(small, min_size=2, max_size=2)
    if name == "ns_coefficients":
        return st.lists(small, min_size=3, max_size=3)
    default = libraries.pytorch_defaults(optimizer)[name]
    if isinstance(default, bool):
        return st.booleans()
    words = {"line_search_fn": [None, "strong_wolfe"],
             "adjust_lr_fn": [None, "original", "match_rms_adamw"]}  # fmt: skip
    if name in words:
        return st.sampled_from(words[name])
    if name in ("max_iter", "max_eval", "history_size", "ns_steps"):
        return st.integers(1, 90)
    if name == "beta2_decay":
        return small.map(lambda x: -x)
    # Of few digits, so that f32 has the same shortest decimal.
    return small.map(lambda x: float(f"{x + 1:.4g}")) if name == "d" else small


@st.composite
def calls(draw):
    name = draw(st.sampled_from(NAMES))
    entry = by_pytorch_name(name)
    mapped = sorted(entry.mapped())
    chosen = draw(st.lists(st.sampled_from(mapped), unique=True))
    options = {key: draw(number(key, name)) for key in chosen}
    if options.get("nesterov") and name == "SGD":
        options |= {"momentum": 0.9, "dampening": 0.0}
    return entry, {**entry.neutral, **options}, draw(st.floats(0, 1))


def call_text(entry, options, lr):
    written = "".join(
        f", {key}={tuple(value) if isinstance(value, list) else value!r}"
        for key, value in options.items()
    )
    return f"{entry.module}.{entry.pytorch}(model.parameters(), lr={lr!r}{written})"


@settings(max_examples=150, deadline=None)
@given(calls())
def test_what_is_written_is_what_was_asked_for(made):
    entry, options, lr = made
    text = call_text(entry, options, lr)
    (unit,) = port(text).units
    assert not unit.all_lost
    # Read back by the parser of the lint, field by field.
    read = sources.read(emit.unit_code(unit), "port.rs")
    (site,) = [s for s in read.sites if s.configuration == entry.burn_config]
    burn = unit.ported.groups[0].burn
    for field in declared.structs()[entry.burn_config]:
        found = rust_values.value(site.fields[field.name])
        default = libraries.burn_fields(entry.burn_config)[field.name]
        wanted = burn.get(field.name, default)
        if isinstance(default, dict) and isinstance(wanted, dict):
            wanted = {**default, **wanted}
        if field.inner == "MomentumConfig" and isinstance(wanted, dict):
            wanted = {**libraries.burn_fields("MomentumConfig"), **wanted}
        assert rust.same_value(field.type, found, wanted), field.name
    assert float(re.search(r"LEARNING_RATE: f64 = (.*);", emit.unit_code(unit))[1]) == lr


@settings(max_examples=150, deadline=None)
@given(calls(), st.booleans())
def test_there_and_back(made, as_json):
    entry, options, lr = made
    text = call_text(entry, options, lr)
    (unit,) = port(text).units
    fields = whole(entry.burn_config, expressions(unit.ported.groups[0].burn))
    shown = json.dumps({entry.burn_config: fields}) if as_json else debug(entry.burn_config, fields)
    found = reverse.reverse(shown, "burn")
    assert not found.lost
    again = reverse.call(found, lr)
    # The same call, but for what is at its default there and stated here.
    (back,) = port(again).units
    mine, theirs = (u.ported.groups[0] for u in (unit, back))
    assert back.ported.lr == unit.ported.lr
    assert whole(entry.burn_config, mine.burn) == whole(entry.burn_config, theirs.burn)
    for item in entry.hyperparameters:
        if item.burn.startswith("momentum.") and item.off is None and not options.get("momentum"):
            continue  # of a part that is off
        a, b = item.of(mine.options), item.of(theirs.options)
        same = item.values or item.pytorch == "eps[0]" or item.pytorch == "max_eval"
        assert a == b or (same and None in (a, b)), item.pytorch


def whole(configuration, given):
    """Every field, as burn serialises it."""
    found = {}
    for field in declared.structs()[configuration]:
        default = None
        if not field.required:
            default = rust.default_of(configuration, field.name, libraries.recorded()["burn"])
        value = given.get(field.name, default)
        if isinstance(value, dict) and field.inner in declared.structs():
            own = {**default, **value} if isinstance(default, dict) else value
            value = whole(field.inner, own)
        if field.inner in ("f32", "f64") and value is not None:
            value = float(value)
        found[field.name] = value
    return found


def debug(configuration, fields):
    """As Rust's ``{:?}`` prints it."""
    parts = []
    for field in declared.structs()[configuration]:
        parts.append(f"{field.name}: {_shown(field.type, fields[field.name])}")
    return f"{configuration} {{ {', '.join(parts)} }}"


def _shown(kind, value):
    if kind.startswith("Option<"):
        inner = kind.removeprefix("Option<").removesuffix(">")
        return "None" if value is None else f"Some({_shown(inner, value)})"
    if kind in declared.structs():
        return debug(kind, value)
    if isinstance(value, dict):
        ((name, held),) = value.items()
        return f"{name}({held})"
    if isinstance(value, list):
        return f"({', '.join(map(str, value))})"
    return str(value).lower() if isinstance(value, bool) else str(value)


# The other way


@pytest.mark.parametrize("entry", optimizers(), ids=lambda entry: entry.pytorch)
def test_burns_own_debug_is_read(entry):
    found = reverse.reverse(libraries.recorded()["burn"][entry.burn_config]["debug"], "burn")
    assert (found.entry, found.lost) == (entry, [])
    text = reverse.call(found, 0.1)
    (unit,) = port(text).units
    assert (
        whole(entry.burn_config, expressions(unit.ported.groups[0].burn))
        == whole(entry.burn_config, libraries.burn_fields(entry.burn_config))
        or entry.pytorch == "LBFGS"
    )  # whose max_eval is then stated


ADAMW = {**libraries.burn_fields("AdamWConfig")}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"cautious_weight_decay": True}, "cautious_weight_decay: true"),
        ({"beta_1": 1.5}, "takes 0.0 <= betas[0] < 1.0"),
    ],
)
def test_what_pytorch_cannot_do_is_named(fields, said):
    found = reverse.reverse(json.dumps(ADAMW | fields), "burn")
    assert found.exit_code == 1
    assert said in found.lost[0]
    assert f"# PyTorch cannot do {found.lost[0]}" in reverse.python(found)


def test_burns_clipping_becomes_the_loops():
    for kind, call in (("Norm", "clip_grad_norm_([parameter], 0.5)"),
                       ("Value", "clip_grad_value_(model.parameters(), 0.5)")):  # fmt: skip
        text = json.dumps(ADAMW | {"grad_clipping": {kind: 0.5}})
        found = reverse.reverse(text, "burn")
        assert call in reverse.python(found)
        compile(reverse.python(found), "made", "exec")


def test_pretty_debug_and_f32():
    text = """AdamConfig {
        beta_1: 0.9, beta_2: 0.999, epsilon: 1e-5, amsgrad: false,
        weight_decay: Some(
            WeightDecayConfig { penalty: 0.1, },
        ),
        grad_clipping: None,
    }"""
    assert "weight_decay=0.1" in reverse.call(reverse.reverse(text, "burn"))
    fields = ADAMW | {"beta_1": 0.8999999761581421}
    assert "betas=(0.9, 0.999)" in reverse.call(reverse.reverse(json.dumps(fields), "burn"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("AdamConfig::new()", {"eps": 1e-5, "weight_decay": 0}),
        ("AdamConfig::new().with_epsilon(1e-8)", {"eps": 1e-8}),
        ("burn::optim::AdamConfig::new().with_beta_2(0.5).init()", {"betas": [0.9, 0.5]}),
        (
            "SgdConfig::new().with_momentum(Some(MomentumConfig::new().with_momentum(0.5)))",
            {"momentum": 0.5, "dampening": 0.1},
        ),
        (
            "fn f() -> X { AdamConfig::new()\n.with_weight_decay(Some(WeightDecayConfig::new(0.1)))"
            "\n.init() }",
            {"weight_decay": 0.1},
        ),
    ],
)
def test_rust_is_read(text, expected):
    assert reverse.is_burn(text)
    found = reverse.reverse(text, "burn")
    assert {key: found.options[key] for key in expected} == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("AdamConfig::new(", "this is not Rust"),
        ("x::y()", "0 configurations of optimizers"),
        ("(AdamConfig::new(), AdamConfig::new())", "2 configurations of optimizers"),
        ("AdamConfig::new().with_epsilon(eps)", "epsilon is a number, and not 'eps'"),
        ("vec![AdamConfig::new().with_epsilon(1e-8)]", "what epsilon is, a macro hides"),
        ("AdamConfig::new().with_eps(1e-8)", "no field 'eps'"),
        ("AdamConfig::new().with_epsilon(" + "-" * 5000 + "1.0)", "nested too deeply"),
        ("AdamConfig { beta_1: 0.9 }", "AdamConfig lacks the field beta_2"),
        ("AdamConfig { beta_1: 0.9, beta_1: 0.9 }", "the field 'beta_1' is given twice"),
        ("AdmConfig { beta_1: 0.9 }", "nearest: 'AdamConfig'"),
        ("AdamConfig { beta_1: }", "line 1: this is not burn's Debug"),
        ("AdamConfig {\n beta_1: 0.9", "line 2: this is not burn's Debug"),
        ("AdamConfig { x: " + "Some(" * 500, "nested too deeply"),
        ('{"beta_1": 1', "line 1: this is not JSON"),
        ('{"a": ' + "[" * 100000, "nested too deeply"),
        ('{"x": 1}', "does not follow from its fields"),
        ('{"grad_clipping": null}', "does not follow from its fields"),
        ('{"AdamConfig": {"beta_1": 0.9}}', "lacks the field"),
        (json.dumps(ADAMW | {"beta_1": "a"}), "beta_1 is a number, and not 'a'"),
        (json.dumps(ADAMW | {"amsgrad": 1}), "amsgrad is true or false, and not 1"),
        (json.dumps(ADAMW | {"grad_clipping": {"Nrm": 1}}), "grad_clipping is one of Value, Norm"),
        (json.dumps(ADAMW | {"epsilom": 1}), "no field 'epsilom'; nearest: 'epsilon'"),
    ],
)
def test_a_configuration_that_is_none(text, said):
    with pytest.raises(PitbError, match=re.escape(said)):
        reverse.reverse(text, "burn")


# The command


def command(capsys, *arguments):
    parsed = cli.parser().parse_args(["port", *map(str, arguments)])
    code = parsed.run(parsed)
    return code, *capsys.readouterr()


def test_the_command(capsys, tmp_path):
    assert command(capsys, "torch.optim.AdamW(p)")[0] == 0
    code, output, _ = command(capsys, "torch.optim.AdamW(p, maximize=True)")
    assert code == 1
    assert "not carried over" in output
    path = tmp_path / "train.py"
    path.write_text(GROUPS)
    code, output, _ = command(capsys, path, "--json")
    said = json.loads(output)
    assert code == 0
    assert said["units"][0]["configuration"] == "AdamWConfig"
    assert said["units"][0]["groups"][1]["lr"] == 0.01
    assert "pub fn optimizer()" in said["rust"]
    code, output, _ = command(capsys, json.dumps(ADAMW), "--lr", "0.1", "--json")
    assert (code, json.loads(output)["optimizer"]) == (0, "torch.optim.AdamW")


@pytest.mark.parametrize("name", ["port", "lint"])
def test_help_has_examples(name, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.parser().parse_args([name, "--help"])
    said = capsys.readouterr().out
    assert ended.value.code == 0
    assert f"examples:\n  pitb {name} " in said


def test_set_gives_values(capsys):
    text = "torch.optim.AdamW(p, lr=args.lr, betas=(0.9, cfg['b2']))"
    _, output, _ = command(capsys, text, "--set", "args.lr=1e-3 * 2", "--set", "cfg['b2']=0.5")
    assert "LEARNING_RATE: f64 = 0.002;" in output
    assert ".with_beta_2(0.5)" in output
    with pytest.raises(PitbError, match="write it as EXPRESSION=VALUE"):
        command(capsys, text, "--set", "args.lr")
    with pytest.raises(PitbError, match="is no value"):
        command(capsys, text, "--set", "args.lr=other")


def test_steps_are_needed_where_a_schedule_has_no_end(capsys):
    text = "o = torch.optim.SGD(p, lr=0.1)\nCosineAnnealingWarmRestarts(o, 4)"
    code, output, _ = command(capsys, text)
    assert (code, "--steps" in output) == (1, True)
    assert command(capsys, text, "--steps", 10)[0] == 0


def run(*arguments, data=b""):
    return subprocess.run(
        [sys.executable, "-m", "pitb", "port", *map(str, arguments)],
        input=data, capture_output=True, check=False, env=None,
    )  # fmt: skip


def test_stdin_and_what_is_no_text():
    ended = run("-", data=b"torch.optim.AdamW(p)")
    assert (ended.returncode, b"AdamWConfig::new()" in ended.stdout) == (0, True)
    ended = run("-", data=b"\xff")
    assert (ended.returncode, ended.stderr) == (2, b"error: <stdin> is not UTF-8 text (byte 0)\n")


def test_files_that_are_none(capsys, tmp_path):
    with pytest.raises(PitbError, match="is a folder"):
        command(capsys, tmp_path)
    with pytest.raises(PitbError, match="does not exist"):
        command(capsys, tmp_path / "no.py")
    with pytest.raises(PitbError, match="neither a file nor the text of a call"):
        command(capsys, "adamw")


def test_it_needs_neither_torch_nor_snakemake():
    code = (
        "import sys; sys.path.insert(0, 'scripts')\n"
        "from pitb import cli\n"
        "for text in ('torch.optim.Muon(p)', 'AdamWConfig { a: 1 }'):\n"
        "    a = cli.parser().parse_args(['port', text])\n"
        "    try: a.run(a)\n"
        "    except Exception: pass\n"
        "print([m for m in ('torch', 'snakemake', 'matplotlib') if m in sys.modules])\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == "[]"
