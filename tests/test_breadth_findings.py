import json
import math
import re
import subprocess
import tomllib
from dataclasses import replace

import pytest

from pitb.breadth import code, finding, findings_page, programs, reproductions, sources
from pitb.breadth.finding import EQUATION, NOT_FINITE, ZERO, Finding, Size
from pitb.breadth.reproductions import Expected, Ran
from pitb.errors import PitbError
from pitb.registry import by_pytorch_name, optimizers

PLACE = re.compile(r"(torch|timm|burn-[\w.-]+|crates)/[\w./-]+\.(py|rs):\d+")
BASE = Finding(
    id="equation-example",
    kind=EQUATION,
    optimizers=("SGD",),
    option="example",
    pytorch="a",
    burn="b",
    meaning="An example.",
    case="sgd_plain_a1_f32",
    pytorch_source=("torch/optim/sgd.py:1",),
    burn_source=("burn-optim-0/src/optim/sgd.rs:1",),
    step=1,
)
SPOTS = [
    (choice, side, spot)
    for choice, by_side in sources.SPOTS.items()
    for side, by_optimizer in by_side.items()
    for spot in by_optimizer.values()
]


@pytest.fixture(scope="module")
def burn(programs):
    printed = subprocess.run([programs / "optdef", "--defaults"], capture_output=True)
    return json.loads(printed.stdout)


# Places


@pytest.mark.parametrize(("choice", "side", "spot"), SPOTS)
def test_every_declared_place_is_found(choice, side, spot):
    assert PLACE.fullmatch(sources.locate(spot, choice))


@pytest.mark.parametrize("name", sources.SCHEDULER_SPOTS)
def test_the_places_of_schedules_are_found(name):
    for spot in sources.SCHEDULER_SPOTS[name]:
        assert PLACE.fullmatch(sources.locate(spot, name))


@pytest.mark.parametrize(
    ("choice", "side", "names", "expected"),
    [
        ("interpolation", "pytorch", ("Adam",), r"exp_avg\.lerp_\("),
        ("interpolation", "pytorch", ("Lion",), r"exp_avg\.lerp_\("),
        ("factored_epsilon", "burn", ("Adafactor",), r"\.add_scalar\(self\.epsilon_1\)"),
        ("tied", "burn", ("LBFGS",), r"param\.val\(\)"),
        ("tied", "burn", ("SGD",), r"grads\.remove\(id\)"),
    ],
)
def test_a_place_names_the_line_that_has_it(choice, side, names, expected):
    (place,) = sources.place(choice, side, names)
    file, line = place.rsplit(":", 1)
    root = file.partition("/")[0]
    crate = root if root in ("torch", "timm") else root.rpartition("-")[0]
    text = (sources.package(crate)[0] / file.partition("/")[2]).read_text(encoding="utf-8")
    assert re.search(expected, text.splitlines()[int(line) - 1])


@pytest.mark.parametrize(
    ("spot", "said"),
    [
        (sources.torch_spot("optim/sgd.py", "no such words"), "matches 0 lines in torch/optim/sgd"),
        (sources.torch_spot("optim/sgd.py", r"momentum"), r"matches \d+ lines"),
        (sources.burn_spot("optim/sgd.rs", "no such words"), "matches 0 lines in burn-optim"),
        (sources.burn_spot("optim/sgd.rs", "momentum", "pub struct None {"), "has 0 lines with"),
        (sources.torch_spot("optim/sgd.py", "lr", "no_such_function"), "0 functions or classes"),
        (sources.torch_spot("optim/none.py", "lr"), "torch/optim/none.py cannot be read"),
        (sources.Spot("burn-none", "src/lib.rs", "x"), "has no crate burn-none"),
    ],
)
def test_a_pattern_that_does_not_match_one_line_is_an_error_that_names_it(spot, said):
    with pytest.raises(PitbError, match=said):
        sources.locate(spot, "example")


def test_burns_tests_are_no_place():
    spot = sources.burn_spot("optim/adamw.rs", "mod tests")
    with pytest.raises(PitbError, match="matches 0 lines"):
        sources.locate(spot, "example")


def test_a_choice_without_a_declared_place_is_an_error():
    with pytest.raises(PitbError, match="no place in the source of burn is declared for nesterov"):
        sources.place("nesterov", "burn", ("SGD",))


@pytest.mark.torch
@pytest.mark.parametrize("optimizer", optimizers(), ids=lambda item: item.key)
def test_every_default_has_its_lines(optimizer):
    for item in optimizer.hyperparameters:
        places = sources.default_places(optimizer, item.pytorch)
        assert all(PLACE.fullmatch(place) for place in places)
    if optimizer.pytorch != "LBFGS":
        for side in ("pytorch", "burn"):
            assert sources.place("float32", side, (optimizer.pytorch,))


# Findings


def test_ids_are_slugs_and_each_its_own():
    finding.check([BASE, replace(BASE, id="other")])
    with pytest.raises(PitbError, match="two findings are called equation-example"):
        finding.check([BASE, BASE])
    for bad in ("Equation", "a--b", "a b", "", "a_b"):
        with pytest.raises(PitbError, match="is no slug"):
            finding.check([replace(BASE, id=bad)])
    assert finding.slug("default", "Adafactor", "eps[0]") == "default-adafactor-eps-0"


def test_an_equation_without_a_place_is_an_error():
    with pytest.raises(PitbError, match="has no place in the source"):
        finding.check([replace(BASE, burn_source=())])


def test_zero_is_not_the_same_as_not_run():
    assert finding.size(0.0, 0.0).status == ZERO
    assert finding.size(math.inf, math.inf).status == NOT_FINITE
    assert finding.size(1e-3, 1e-2) == Size("", 1e-3, 1e-2)
    texts = [findings_page.shown(size, "en") for size in (finding.size(0.0, 0.0), Size())]
    assert texts == ["0", "not run"]


def test_findings_survive_json():
    known = replace(BASE, sizes=(Size(), Size("", 1.0, 2.0), Size(NOT_FINITE)))
    text = json.dumps(finding.plain(known), allow_nan=False)
    again = finding.from_plain(json.loads(text))
    assert finding.plain(again) == finding.plain(known)
    assert again.sizes[1] == known.sizes[1]


@pytest.mark.torch
def test_what_a_choice_means_is_read_from_its_docstring():
    from pitb.breadth.equation_findings import choices, meaning
    from pitb.reference.descriptions import DESCRIPTIONS

    pairs = [(DESCRIPTIONS["pytorch"][n], DESCRIPTIONS["burn"][n]) for n in DESCRIPTIONS["burn"]]
    differing = {c for c in choices() for a, b in pairs if a.value(c) != b.value(c)}
    assert {"tied", "lbfgs.line_search_tolerance"} <= differing
    assert all(meaning(choice) for choice in differing)
    with pytest.raises(PitbError, match="no docstring"):
        meaning("dampening")


@pytest.mark.torch
def test_a_reason_that_is_not_known_is_an_error():
    from pitb.breadth.other_findings import _reason

    assert _reason("burn's Adam cannot do maximize=True", {})[:2] == ("maximize", "True")
    assert _reason("PyTorch's AdamW has no cautious_weight_decay", {})[0] == "cautious_weight_decay"
    refused = "torch.optim.SGD refuses its options: Nesterov needs a momentum"
    assert _reason(refused, {"nesterov": True, "momentum": 0})[0] == "nesterov, momentum"
    with pytest.raises(PitbError, match="no option can be read out of"):
        _reason("it is raining", {})


# From a plan to programs


@pytest.fixture(scope="module")
def evidence(burn):
    from dataclasses import asdict

    from pitb.breadth.cases import option_cases
    from pitb.breadth.finding import Evidence
    from pitb.breadth.plan import plan

    wanted = ("adafactor_eps1_a1_f32", "adafactor_eps1_gradients_f32", "adafactor_default_a1_f32")
    cases = [case for case in option_cases() if case.name in wanted]
    outcomes = [
        {
            **{key: asdict(case)[key] for key in ("suite", "optimizer", "set", "problem", "dtype")},
            "case": case.name,
            "steps": case.steps,
            "pair": "pytorch--burn",
            "verdict": "MISMATCH" if case.set == "eps1" else "OK",
            "reason": "",
            "explanation": "formula" if case.set == "eps1" else "",
            "because": ["factored_epsilon"] if case.set == "eps1" else [],
        }
        for case in cases
    ]
    kills = [{"kind": "choice", "optimizer": "Adafactor", "mutant": "factored_epsilon=add"}]
    return Evidence(plan(cases, burn)["cases"], outcomes, kills, {}, burn)


@pytest.mark.torch
def test_the_smallest_run_that_shows_a_choice_is_found(evidence):
    from pitb.breadth.equation_findings import equation_findings

    (found,) = equation_findings(evidence)
    assert found.id == "equation-factored-epsilon"
    assert (found.pytorch, found.burn) == ("clamp", "add")
    # Fewer numbers than A1 with its inputs has.
    assert (found.case, found.step) == ("adafactor_eps1_gradients_f32", 1)
    assert all(size.relative > 1e-4 for size in found.sizes)
    assert found.align.case == "adafactor_default_a1_f32"


@pytest.mark.torch
def test_a_choice_that_matters_must_have_a_place(evidence, monkeypatch):
    from pitb.breadth.equation_findings import equation_findings

    monkeypatch.setattr(sources, "SPOTS", {})
    with pytest.raises(PitbError, match="is declared for factored_epsilon of Adafactor"):
        list(equation_findings(evidence))


@pytest.mark.torch
def test_a_way_to_align_that_no_case_shows_is_an_error(evidence):
    from pitb.breadth.equation_findings import equation_findings

    apart = [{**outcome, "verdict": "MISMATCH"} for outcome in evidence.outcomes]
    with pytest.raises(PitbError, match="said to be aligned by default, but no such case agrees"):
        list(equation_findings(replace(evidence, outcomes=apart)))


@pytest.mark.torch
def test_the_python_script_prints_what_is_predicted(evidence, tmp_path):
    from pitb.breadth.equation_findings import equation_findings

    (found,) = equation_findings(evidence)
    made = reproductions.make(found, evidence)
    (tmp_path / "main.py").write_text(made.python, encoding="utf-8")
    (tmp_path / "fails.py").write_text("raise ValueError('no')", encoding="utf-8")
    ran, failed = reproductions.run_scripts([tmp_path / "main.py", tmp_path / "fails.py"])
    assert (failed.code, failed.error) == (1, "ValueError: no")
    as_predicted = {side: Ran(_printed(getattr(made.expected, side)), 0) for side in ("burn",)}
    assert reproductions.check(made.expected, {"pytorch": ran, **as_predicted}) == []
    assert "use burn::optim::{AdafactorConfig, Optimizer};" in made.rust
    assert "with_epsilon_1(0.01)" in made.rust


def _printed(prediction):
    return "".join(f"step {k}: {' '.join(map(repr, v))}\n" for k, v in prediction.items())


@pytest.mark.torch
@pytest.mark.pipeline
def test_reproductions_are_built_with_the_projects_own_burn(evidence, root, tmp_path, capsys):
    from pitb.breadth.equation_findings import equation_findings

    found = list(equation_findings(evidence))
    folder = tmp_path / "test-of-findings" / "reproductions"
    reproductions.write(found, evidence, folder)
    outputs = reproductions.reproduce(folder, root, root / "target")
    assert capsys.readouterr().out == "compiled: reproductions\n"
    assert set(outputs) == {"equation-factored-epsilon"}
    # A reproduction whose programs agree is an error.
    script, program = (
        folder / "equation-factored-epsilon" / name for name in ("main.py", "main.rs")
    )
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    text = expected["equation-factored-epsilon"]
    text["pytorch"] = text["burn"]
    (folder / "expected.json").write_text(json.dumps(expected), encoding="utf-8")
    lines = "\n".join(f"print('step {k}:', *{v})" for k, v in text["burn"].items())
    script.write_text(lines, encoding="utf-8")
    with pytest.raises(PitbError, match="equation-factored-epsilon: both programs agree"):
        reproductions.reproduce(folder, root, root / "target")
    program.write_text("fn main() { let x: u8 = 'a'; }", encoding="utf-8")
    with pytest.raises(PitbError, match="does not compile: error"):
        reproductions.reproduce(folder, root, root / "target")
    for left in (root / "target" / "release").glob("test-of-findings-*"):
        left.unlink()


# Checking


PREDICTED = Expected(
    {"1 x": [1.0, 2.0]}, {"1 x": [1.0, 2.5]}, dict.fromkeys(("pytorch", "burn", "apart"), 1e-6)
)


def ran(pytorch, burn, codes=(0, 0)):
    return {"pytorch": Ran(pytorch, codes[0], "why"), "burn": Ran(burn, codes[1], "why")}


@pytest.mark.parametrize(
    ("expected", "found", "said"),
    [
        (PREDICTED, ran("step 1 x: 1 2\n", "step 1 x: 1e0 2.5e0\n"), []),
        (PREDICTED, ran("step 1 x: 1 2\n", "step 1 x: 1 2\n"), ["main.rs is"]),
        (replace(PREDICTED, burn=PREDICTED.pytorch), ran(*["step 1 x: 1 2\n"] * 2), ["agree"]),
        (PREDICTED, ran("step 1 x: 1 2\n", "step 1 x: 1 NaN\n"), ["main.rs is inf"]),
        (PREDICTED, ran("step 1 x: 1 2\n", ""), ["other tensors"]),
        (PREDICTED, ran("step 1 x: 1 2\n", "", (0, 101)), ["main.rs fails: why"]),
        (replace(PREDICTED, fails="burn"), ran("step 1 x: 1 2\n", "", (0, 101)), []),
        (replace(PREDICTED, fails="burn"), ran(*["step 1 x: 1 2\n"] * 2), ["main.rs must fail"]),
        (replace(PREDICTED, fails="burn"), ran("", "", (1, 101)), ["main.py fails: why"]),
    ],
)
def test_a_reproduction_counts_only_where_it_shows_its_finding(expected, found, said):
    wrong = reproductions.check(expected, found)
    assert len(wrong) == len(said)
    assert all(part in text for part, text in zip(said, wrong, strict=True))


def test_numbers_are_compared_also_where_they_are_not_finite():
    assert reproductions.parse("note\nstep 2 fc.bias: NaN -inf 1e-3\n")["2 fc.bias"][1] == -math.inf
    nan, inf = math.nan, math.inf
    assert reproductions.distance([nan, inf, 1.0], [nan, inf, 1.0]) == 0
    assert reproductions.distance([inf, 1.0], [-inf, 1.0]) == inf
    assert reproductions.distance([1.0], [1.0, 2.0]) == inf
    assert reproductions.distance([2.0], [1.0]) == 0.5


# Code


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("Adam", {"epsilon": 1e-8, "beta_1": 0.9}, "AdamConfig::new().with_epsilon(1e-8)"),
        ("Adam", {"weight_decay": None}, "AdamConfig::new()"),
        (
            "SGD",
            {"momentum": {"momentum": 0.9, "dampening": 0.0, "nesterov": True}},
            "SgdConfig::new().with_momentum(Some(MomentumConfig::new()"
            ".with_dampening(0.0).with_nesterov(true)))",
        ),
        (
            "SGD",
            {"gradient_clipping": {"Norm": 0.1}},
            "SgdConfig::new().with_gradient_clipping(Some(GradientClippingConfig::Norm(0.1)))",
        ),
        (
            "Muon",
            {"momentum": {"momentum": 0.5}, "ns_coefficients": [2.0, -1.5, 0.5], "ns_steps": 3},
            "MuonConfig::new().with_momentum(MomentumConfig { momentum: 0.5, dampening: 0.0, "
            "nesterov: true }).with_ns_coefficients((2.0, -1.5, 0.5)).with_ns_steps(3)",
        ),
        (
            "LBFGS",
            {"max_eval": 5, "line_search_fn": "StrongWolfe"},
            "LBFGSConfig::new().with_max_eval(Some(5)).with_line_search_fn(LineSearchFn::StrongWolfe)",
        ),
    ],
)
def test_options_are_written_as_a_user_of_burn_does(burn, name, options, expected):
    assert code.burn_config(by_pytorch_name(name), options, burn) == expected


def test_an_unknown_field_is_an_error(burn):
    with pytest.raises(PitbError, match="no field 'eps'"):
        code.burn_config(by_pytorch_name("Adam"), {"eps": 1e-8}, burn)


def test_numbers_that_are_not_finite_can_be_written():
    assert programs.rust_values([math.nan, -math.inf, 1e-8]) == (
        "[f64::NAN, f64::NEG_INFINITY, 1e-8]"
    )
    assert programs.python_values([math.nan, 1.0]) == '[float("nan"), 1.0]'


@pytest.mark.torch
def test_every_default_can_be_written_out(burn):
    from pitb.breadth.default_findings import default_code
    from pitb.breadth.defaults import differences

    written = {
        (item.optimizer, item.name): default_code(by_pytorch_name(item.optimizer), item, burn)
        for item in differences(burn)
        if not item.absent
    }
    assert written["Adam", "eps"] == "AdamConfig::new().with_epsilon(1e-8)"
    assert written["Lamb", "always_adapt"] == "LambConfig::new().with_use_trust_ratio(false)"
    assert all(".with_" in text for text in written.values())


def test_the_package_has_all_dependencies_of_the_workspace(root, tmp_path):
    text = reproductions.manifest(tmp_path / "scope" / "reproductions", root, ["a", "b"])
    made = tomllib.loads(text)
    workspace = tomllib.loads((root / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]
    for name, value in workspace["dependencies"].items():
        if "path" not in value:
            assert made["dependencies"][name] == value
    assert "pitb-core" not in made["dependencies"]
    assert [item["name"] for item in made["bin"]] == ["scope-a", "scope-b"]


# The page


def test_markdown_escapes_what_would_break_a_table_or_a_block():
    odd = replace(BASE, option="a|b", meaning="of `x` | y", pytorch="`q`", note="line\nbreak")
    outputs = {odd.id: {"burn": "```\n" + "line\n" * 50, "pytorch": "step 1 x: 1\n"}}
    for language in ("en", "zh"):
        page = findings_page.markdown([odd], language, outputs)
        rows = [text for text in page.splitlines() if text.startswith("| equation-example")]
        assert len(rows) == 1
        assert "a\\|b" in rows[0]
        assert "`` `q` ``" in rows[0]
        assert page.count("```") == 4
        assert "..." in page
    assert "复现" in page


def test_tables_tell_zero_from_not_run(tmp_path):
    known = replace(BASE, sizes=(finding.size(0.0, 0.0), Size(), finding.size(1e-3, 1e-2)))
    findings_page.write_tables([known], tmp_path)
    import pyarrow.parquet as pq

    (row,) = pq.read_table(tmp_path / "findings.parquet").to_pylist()
    assert (row["status_1"], row["absolute_1"]) == (ZERO, 0.0)
    assert (row["status_10"], row["absolute_10"]) == ("not run", None)
    assert (row["status_200"], row["relative_200"]) == ("number", 1e-2)
    assert (tmp_path / "findings.csv").read_text(encoding="utf-8").count("\n") == 2
