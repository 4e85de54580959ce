"""Generated code is compiled, trained and compared; the controls break it on purpose."""

import contextlib
import json
import math
import re
from dataclasses import replace

import pytest

from pitb import cli
from pitb.errors import PitbError
from pitb.files import read_json
from pitb.port import emit, listed, verify
from pitb.port.assemble import Port, assemble
from pitb.port.schedules import NotCarriedOver, translate
from pitb.port.source import parse
from pitb.port.verify import DIFFERS, EQUATION, SAME, UNTRIED, Tried
from pitb.schedulers import burn_rates, pytorch_rates
from pitb.schedulers.cases import CASES

pytestmark = [pytest.mark.pipeline, pytest.mark.torch]

TEXTS = {
    "adamw": "torch.optim.AdamW(p, lr=3e-3, betas=(0.9, 0.95), weight_decay=0.1)",
    "sgd": "torch.optim.SGD(p, 0.1)",
    "lion": "timm.optim.Lion(p, lr=1e-3, weight_decay=0.1)",
    "lamb": "timm.optim.Lamb(p, lr=1e-2, max_grad_norm=None)",
    "decoupled": "torch.optim.Adam(p, lr=1e-2, weight_decay=0.1, decoupled_weight_decay=True)",
    "lbfgs": "torch.optim.LBFGS(p, line_search_fn='strong_wolfe')",
    "groups": """
o = torch.optim.AdamW([{"params": model.base.parameters()},
                       {"params": model.head.parameters(), "lr": 1e-2, "weight_decay": 0.3}])
clip_grad_norm_(model.parameters(), 0.3)
""",
    "schedule": """
o = torch.optim.SGD(p, lr=0.1, momentum=0.5)
w = LinearLR(o, 0.1, total_iters=3)
s = SequentialLR(o, [w, CosineAnnealingLR(o, T_max=5)], [3])
""",
    "power": "o = torch.optim.SGD(p, lr=0.1)\nLambdaLR(o, lambda t: 0.9 ** t)",
    "value": "o = torch.optim.Adam(p, lr=0.1)\nclip_grad_value_(p, 0.03)",
    "infinity": "o = torch.optim.SGD(p, lr=0.1)\nclip_grad_norm_(p, 0.03, 'inf')",
    "three": "o = torch.optim.SGD(p, lr=0.1)\nclip_grad_norm_(p, 0.03, 3, True)",
}
BROKEN = {
    "wrong-epsilon": ("torch.optim.Adam(p, lr=0.1)", {"epsilon": 1e-2}),
    "wrong-decay": ("torch.optim.AdamW(p, lr=0.1)", {"weight_decay": 0.02}),
    "wrong-part": ("torch.optim.SGD(p, lr=0.1, momentum=0.9)", {"momentum": None}),
}
OPEN = {
    "open": "torch.optim.Adam(p, lr=args.lr, betas=args.betas, amsgrad=a.b, weight_decay=wd)",
    "open-lbfgs": "torch.optim.LBFGS(p, args.lr, max_iter=n, line_search_fn=args.search)",
    "open-groups": "torch.optim.AdamW([{'params': a}, {'params': b, 'lr': x}], lr=y)",
    "open-schedule": "o = torch.optim.SGD(p, lr=r)\nCosineAnnealingLR(o, T_max=n, eta_min=m)",
    "open-clip": "o = torch.optim.Muon(p, lr=r)\nclip_grad_norm_(p, c)\nclip_grad_value_(p, v)",
    "open-bound": "o = torch.optim.SGD(p, lr=0.1)\nclip_grad_value_(p, v)",
    "lbfgs-clip": "o = torch.optim.LBFGS(p)\nclip_grad_norm_(p, 1)\nStepLR(o, 3)",
    "schedule-alone": "StepLR(o, 30)",
    "clip-alone": "clip_grad_norm_(p, 1)",
    "several": "a = torch.optim.SGD(x.parameters())\nb = torch.optim.Adam(y.parameters())",
    "cycle": "o = torch.optim.SGD(p)\nOneCycleLR(o, 0.1, total_steps=20, cycle_momentum=False)",
}
"""What no run can try, but a compiler can."""


def tried(key, text):
    ports = {d: assemble(parse(text, key), d) for d in ("float32", "float64")}
    return Tried(key, ports)


def broken(key, text, change):
    made = tried(key, text)
    for port in made.ports.values():
        port.units[0].ported.groups[0].burn |= change
    return made


@pytest.fixture(scope="module")
def verdicts(root, tmp_path_factory):
    everything = [tried(key, text) for key, text in TEXTS.items()]
    everything += [broken(key, *value) for key, value in BROKEN.items()]
    everything.append(tried("still", "torch.optim.SGD(p, lr=0)"))
    everything.append(tried("open", OPEN["open"]))
    # One folder, so that what cargo leaves behind is replaced and not piled up.
    folder = root / "target" / "port-tests" / "crate"
    found = verify.verify(everything, folder, root, (root / "target").absolute())
    return {item.key: item for item in found}


@pytest.mark.parametrize("key", TEXTS)
def test_the_generated_code_does_what_the_call_says(verdicts, key):
    found = verdicts[key]
    assert found.passes, found.reason
    assert found.cases >= 2


def test_plain_descent_is_the_same_to_the_last_run(verdicts):
    assert (verdicts["sgd"].status, verdicts["sgd"].same) == (SAME, verdicts["sgd"].cases)


def test_a_difference_in_equations_is_named(verdicts):
    assert verdicts["lamb"].status == EQUATION
    assert verdicts["adamw"].choices == ["float32"]


@pytest.mark.parametrize("key", BROKEN)
def test_a_broken_port_is_seen(verdicts, key):
    found = verdicts[key]
    assert found.status == DIFFERS
    assert not found.passes
    assert re.search(r"burn and reference: param .* at step [12] is", found.reason)


def test_a_run_that_does_not_move_tells_nothing(verdicts):
    assert verdicts["still"].status == UNTRIED
    assert "moves" in verdicts["still"].reason


def test_what_depends_on_the_run_is_not_tried(verdicts):
    assert verdicts["open"].status == UNTRIED
    assert "--set 'args.betas" in verdicts["open"].reason


def test_what_no_run_can_try_compiles_without_a_warning(root):
    modules = {}
    for key, text in OPEN.items():
        modules[key.replace("-", "_")] = emit.rust_of(assemble(parse(text, key)))
    folder = root / "target" / "port-tests" / "open"
    verify.write_crate(folder, root, modules, {})
    verify.build(folder, (root / "target").absolute())
    (folder / "src/open.rs").write_text("fn f() -> u8 { 1.0 }\n")
    with pytest.raises(PitbError, match=r"does not compile: error\[E0308\]"):
        verify.build(folder, (root / "target").absolute())


def test_code_that_is_not_carried_over_is_not_tried():
    made = tried("lost", "torch.optim.AdamW(p, maximize=True)")
    assert "maximize" in verify.untried(made.of("float32"))


def test_the_command_verifies(capsys):
    text = "torch.optim.SGD(p, lr=args.lr, momentum=0.9)"
    arguments = ["port", text, "--verify", "--json", "--set", "args.lr=0.1"]
    parsed = cli.parser().parse_args([*arguments, "--problems", "a1"])
    assert parsed.run(parsed) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["verified"]["optimizer"]["cases"] == 2
    parsed = cli.parser().parse_args(["port", text, "--verify", "--problems", "a1"])
    assert parsed.run(parsed) == 1
    assert "// verified: optimizer: untried: args.lr is known only" in capsys.readouterr().out
    parsed = cli.parser().parse_args([*arguments, "--problems", "a2"])
    with pytest.raises(PitbError, match=r"no problem 'a2' is known; nearest: 'a1'"):
        parsed.run(parsed)


# Schedules: burn's own rates and PyTorch's own


@pytest.fixture(scope="module")
def translated():
    found = {}
    for case in CASES:
        if case.pytorch is not None:
            with contextlib.suppress(NotCarriedOver):
                config = translate(case.pytorch, case.base[case.group], case.steps).config
                found[case.name] = replace(case, burn=config)
    return found


@pytest.fixture(scope="module")
def rates(translated, programs):
    return burn_rates(list(translated.values()), programs / "optdef")


def test_most_schedules_are_translated(translated):
    assert len(translated) > len(CASES) / 2


@pytest.mark.parametrize("name", [case.name for case in CASES if case.pytorch is not None])
def test_burns_schedule_gives_pytorchs_rates(name, translated, rates):
    if name not in translated:
        return  # named as not to be had, which tests/test_port.py judges
    theirs = pytorch_rates(translated[name])
    mine = rates[name]
    if theirs.error is not None and not theirs.rates:
        return  # PyTorch refuses the rate itself, which the call of the optimizer would say
    assert mine.error is None
    assert len(mine.rates) == translated[name].steps
    for k, (a, b) in enumerate(zip(theirs.rates, mine.rates, strict=False)):
        assert math.isclose(a, b, rel_tol=1e-11, abs_tol=1e-16), f"update {k + 1}"


# The whole list


@pytest.fixture(scope="module")
def rows(root):
    path = root / "results/port/port.json"
    if not path.is_file():
        pytest.skip("make port has not been made")
    return read_json(path)["rows"]


def test_the_list_is_pytorchs(rows):
    from pitb.breadth import coverage

    made = [(item.optimizer, item.desc) for item in coverage.configurations()]
    assert [(row["optimizer"], row["desc"]) for row in rows] == made


def test_every_one_passes_or_is_named(rows):
    listed.check([listed.Listed(**row) for row in rows])


def test_what_cannot_be_had_is_what_the_coverage_has_tried(rows, root):
    path = root / "results/breadth-slice/coverage.json"
    if not path.is_file():
        pytest.skip("make slice has not been made")
    words = {"impossible": {"refused"}, "no-counterpart": {"absent"}, "covered": {SAME, EQUATION}}
    for mine, theirs in zip(rows, read_json(path)["rows"], strict=True):
        assert mine["status"] in words[theirs["status"]], mine["call"]


def test_the_calls_are_pytorchs_configurations():
    import torch

    from pitb.breadth import coverage

    for item in coverage.configurations():
        call = listed.call_of(item)
        model = torch.nn.Linear(2, 2, bias=False)
        made = eval(call, {"torch": torch, "model": model})
        for key, value in item.kwargs.items():
            found = made.defaults[key]
            numbers = [float(x) for x in found] if isinstance(value, list) else found
            assert numbers == value or float(numbers) == pytest.approx(float(value), rel=1e-7)


def test_the_summary_counts():
    row = listed.Listed("A", "", "", SAME, "", 1, 1)
    made = [row, replace(row, status=DIFFERS), replace(row, status="absent")]
    assert listed.summary(made).startswith(
        "3 configurations, 1 of 2 that burn can have pass (50 %)"
    )
    with pytest.raises(PitbError, match="1 ports do not do what the call says"):
        listed.check(made)
    assert isinstance(assemble(parse("torch.optim.SGD(p)", "a")), Port)
