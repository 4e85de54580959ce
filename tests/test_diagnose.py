"""What `pitb diagnose` finds of traces whose configuration it is not shown."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pitb import parts, problems, trace
from pitb.cli import parser
from pitb.diagnose import clips, pair, recover, report, space, survey, words
from pitb.diagnose.diagnosis import diagnose, diagnose_file
from pitb.diagnose.reading import parse_map
from pitb.diagnose.recording import load, of_trace
from pitb.errors import PitbError
from pitb.reference.training import Group, Run, train

TRACES = Path(__file__).parent.parent / "results/traces"
SLICE = Path(__file__).parent.parent / "results/breadth-slice"


def run_of(optimizer, side="pytorch", problem="a1", lr=0.01, options=None, dtype="float32", **rest):
    """A run of the reference, also with choices of equation that no library has."""
    taken = {"steps", "clip", "rates", "frozen"}
    loop = {name: value for name, value in rest.items() if name in taken}
    choices = {name: value for name, value in rest.items() if name not in taken}
    start = space.base(optimizer, side)
    group = Group(
        optimizer, {**start.options, **(options or {})}, start.equations.but(**choices), lr=lr
    )
    return Run("x", problem, (group,), dtype=dtype, states=False, **loop)


def diagnosed(run, change=None):
    found = train(run)
    if change is not None:
        change(found)
    return diagnose(of_trace(found))


def without(found, *quantities):
    """A trace without some quantities."""
    recorder = trace.Recorder()
    for entry in found.entries:
        if entry.quantity not in quantities:
            values = found.of(entry).reshape(entry.shape)
            recorder.add(entry.step, entry.quantity, values, entry.dtype, entry.tensor)
    return recorder.trace(found.metadata)


def rebuilt(found, change):
    """A trace whose entries ``change(step, quantity, tensor, values)`` has renamed or altered; it
    gives None to leave one out."""
    recorder = trace.Recorder()
    for entry in found.entries:
        new = change(
            entry.step, entry.quantity, entry.tensor, found.of(entry).reshape(entry.shape).copy()
        )
        if new is not None:
            recorder.add(new[0], new[1], new[3], entry.dtype, new[2])
    return recorder.trace({**found.metadata, "schema": trace.SCHEMA_VERSION})


PAGES = survey.pages(TRACES)


@pytest.mark.parametrize("item", PAGES, ids=lambda item: f"{item.side}-{item.name}")
def test_every_run_of_the_pages_is_recovered(item):
    found = survey.record(item)
    assert found["outcome"] == survey.RECOVERED, found["reason"]


def test_all_runs_of_the_pages_were_tried():
    assert len(PAGES) >= 23


def test_burns_rmsprop_is_named_in_plain_words():
    found = diagnose_file(TRACES / "burn/rmsprop.parquet")
    assert report.headline(found).startswith(
        "this is RMSprop with momentum 0.9 and epsilon 1e-5 outside the root (burn's defaults), at "
        "rate 0.01; residual "
    )


SAMPLE = survey.breadth(SLICE, sample=1)


@pytest.mark.parametrize("key", sorted({item.optimizer for item in SAMPLE}))
def test_a_sample_of_the_breadth_is_recovered(key):
    mine = [item for item in SAMPLE if item.optimizer == key]
    outcomes = {item.name: survey.record(item) for item in mine}
    assert all(found["outcome"] != survey.MISSED for found in outcomes.values()), outcomes


IN_BFLOAT16 = {
    # The smallest singular values make an update jump with its momentum: no slope leads there.
    "momentum": ("a1", {"momentum": 0.8}),
    "published coefficients": (
        "gradients",
        {"ns_coefficients": [2.0, -1.5, 0.5], "ns_steps": 3},
    ),
    "epsilon above the norm": ("gradients", {"eps": 9.7}),
    "decay": ("wide", {"weight_decay": 0.03, "adjust_lr_fn": "match_rms_adamw"}),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", IN_BFLOAT16)
def test_muon_in_bfloat16_is_recovered(name, dtype):
    problem, options = IN_BFLOAT16[name]
    tensors = problems.problem(problem).parameters
    frozen = tuple(key for key, value in tensors.items() if value.ndim != 2)
    run = run_of("Muon", problem=problem, options=options, dtype=dtype, frozen=frozen)
    assert recover.failure(diagnosed(run), recover.of_run(run, "pytorch")) is None


@pytest.mark.parametrize("beta", [0.1, 0.3, 0.5, 0.8, 0.97])
def test_a_weight_that_few_signs_show_is_within_its_interval(beta):
    # Signs allow one beta in a narrow range of the other, and slopes say nothing.
    run = run_of("Lion", problem="inf", lr=0.003, options={"betas": [beta, 0.8]}, dtype="float64")
    assert recover.failure(diagnosed(run), recover.of_run(run, "pytorch")) is None


def lbfgs(side="pytorch", dtype="float32", states=True, choices=None, **options):
    start = space.base("LBFGS", side)
    equations = start.equations
    for name, value in (choices or {}).items():
        equations = equations.with_value(name, value)
    group = Group("LBFGS", {**start.options, **options}, equations, lr=0.5)
    return Run("x", "a1", (group,), dtype=dtype, states=states)


@pytest.mark.parametrize(
    ("dtype", "how"),
    [
        ("float32", {}),
        ("float64", {"side": "burn", "history_size": 3}),
        ("float32", {"choices": {"lbfgs.displacement": "direction"}}),
    ],
    ids=["float32", "short history", "mistaken displacement"],
)
def test_lbfgs_of_one_evaluation_is_recovered(dtype, how):
    run = lbfgs(dtype=dtype, max_iter=1, **how)
    found = diagnosed(run)
    assert recover.failure(found, recover.of_run(run, how.get("side", "pytorch"))) is None


def test_lbfgs_says_what_to_record():
    found = diagnosed(lbfgs())
    assert not found.explained
    assert "evaluated up to 20 times in an update" in report.headline(found)
    assert "max_iter=1" in report.headline(found)
    # Without its count of evaluations the text can only suppose it.
    found = diagnosed(lbfgs(states=False, dtype="float64"))
    assert not found.explained
    assert "max_iter=1" in report.text(found)


def every(step, n, first=1):
    return step % n == 0 or step == first


KEPT = {
    "from update 6 on": lambda entry: entry.step >= 5,
    "every tenth": lambda entry: (
        every(entry.step, 10)
        or (every(entry.step + 1, 10) and entry.quantity.partition(".")[0] in ("param", "state"))
    ),
}


def cut(found, keep):
    """A trace without the entries that ``keep`` refuses."""
    recorder = trace.Recorder()
    for entry in filter(keep, found.entries):
        values = found.of(entry).reshape(entry.shape)
        recorder.add(entry.step, entry.quantity, values, entry.dtype, entry.tensor)
    return recorder.trace(found.metadata)


@pytest.mark.parametrize("optimizer", ["AdamW", "SGD", "Adafactor", "Adan"])
@pytest.mark.parametrize("how", KEPT)
def test_updates_are_replayed_from_recorded_states(optimizer, how):
    options = {"momentum": 0.9} if optimizer == "SGD" else {}
    run = replace(run_of(optimizer, options=options), states=True, steps=21)
    recording = of_trace(cut(train(run), KEPT[how]))
    assert recording.starts and (recording.steps == 3 or recording.updates[0] == 6)
    assert recover.failure(diagnose(recording), recover.of_run(run, "pytorch")) is None


def test_without_states_a_later_beginning_is_refused():
    run = replace(run_of("AdamW"), steps=8)
    with pytest.raises(PitbError, match=r"or record its states \('state'\)"):
        of_trace(cut(train(run), KEPT["from update 6 on"]))


def test_a_folder_of_parts_is_a_trace(tmp_path):
    run = replace(run_of("AdamW"), states=True, steps=21)
    whole = cut(train(run), KEPT["every tenth"])
    parts.write(whole, tmp_path / "x", [len(whole.entries) // 2])
    recording = load(tmp_path / "x")
    assert list(recording.updates) == [1, 10, 20]
    assert {step: set(states) for step, states in recording.starts.items()} == {
        1: set(recording.names),
        2: set(recording.names),
    }
    assert recover.failure(diagnose(recording), recover.of_run(run, "pytorch")) is None


MIXTURES = {
    "AdamW with coupled decay": (
        "AdamW",
        {"decay": "coupled", "options": {"weight_decay": 0.1}},
    ),
    "Adam with epsilon under the root": (
        "Adam",
        {"epsilon": "inside", "options": {"eps": 1e-3}, "problem": "gradients"},
    ),
    "RMSprop with epsilon under the root": (
        "RMSprop",
        {
            "epsilon": "inside",
            "options": {"eps": 1e-4, "momentum": 0.7},
            "problem": "gradients",
        },
    ),
    "LAMB with decay after the ratio": (
        "Lamb",
        {"lamb_decay": "after-ratio", "options": {"max_grad_norm": None, "weight_decay": 0.1}},
    ),
    "Adagrad that decays at once": (
        "Adagrad",
        {
            "lr_decay": "from-one",
            "options": {"lr_decay": 0.2},
            "lr": 0.1,
            "problem": "gradients",
        },
    ),
    "Adam without bias correction": (
        "Adam",
        {"bias_correction": "none", "problem": "gradients"},
    ),
    "SGD whose first momentum is dampened": (
        "SGD",
        {
            "first_momentum": "dampened",
            "options": {"momentum": 0.9, "dampening": 0.5},
            "problem": "gradients",
        },
    ),
    "Adan that begins as in the paper": (
        "Adan",
        {"averages_start": "gradient", "problem": "gradients"},
    ),
    "Adafactor with epsilon added": (
        "Adafactor",
        {"factored_epsilon": "add", "options": {"eps": [1e-3, 1e-3]}},
    ),
    "AdamW that decays after the step": (
        "AdamW",
        {"decay": "decoupled-after", "options": {"weight_decay": 0.1}, "problem": "gradients"},
    ),
    "Lion in the other order": (
        "Lion",
        {"lion_order": "update-then-interpolate", "problem": "gradients"},
    ),
}


@pytest.mark.parametrize("name", MIXTURES)
def test_a_mixture_that_no_library_ships_is_recovered(name):
    optimizer, how = MIXTURES[name]
    run = run_of(optimizer, **how)
    assert recover.failure(diagnosed(run), recover.of_run(run, "pytorch")) is None


@st.composite
def configurations(draw):
    """Any optimizer whose numbers count alone, with any of its flags and any numbers."""
    optimizer = draw(st.sampled_from(["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"]))
    side = draw(st.sampled_from(space.SIDES))
    options = {}
    for name, value in space.defaults(optimizer, side).items():
        if isinstance(value, bool):
            options[name] = draw(st.booleans())
        elif name == "betas":
            options[name] = [draw(st.sampled_from([0.0, 0.5, 0.8, 0.9])), draw(WEIGHT)]
        elif name in space.WEIGHTS or "dampening" in name:
            options[name] = draw(st.sampled_from([0.0, 0.3, 0.9]))
        elif name == "eps":
            options[name] = draw(st.sampled_from([1e-8, 1e-5, 1e-3]))
        elif name == "weight_decay":
            options[name] = draw(st.sampled_from([0.0, 1e-4, 0.01, 0.3]))
    if options.get("nesterov"):
        options |= {"momentum": 0.9, "dampening": 0.0}
    if optimizer == "RMSprop" and options["alpha"] == 0.0:
        options["alpha"] = 0.99
    options.pop("decoupled_weight_decay", None)
    return optimizer, side, options


WEIGHT = st.sampled_from([0.9, 0.95, 0.99, 0.999])


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(configurations())
def test_random_options_of_random_optimizers_are_recovered(configuration):
    optimizer, side, options = configuration
    run = run_of(optimizer, side, "gradients", options=options)
    truths = recover.of_run(run, side)
    found = diagnosed(run)
    assert recover.failure(found, truths) is None, report.text(found)


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.floats(0.5, 0.95),
    st.floats(0.9, 0.999),
    st.floats(1e-8, 1e-3),
    st.floats(1e-3, 0.3),
    st.integers(2, 6),
)
def test_true_values_lie_within_their_intervals(first, second, eps, decay, steps):
    # In few steps the numbers act alike, so that one can stand in for another.
    options = {"betas": [first, second], "eps": eps, "weight_decay": decay}
    run = run_of("AdamW", "pytorch", "gradients", options=options, steps=steps)
    found = diagnosed(run)
    assert recover.failure(found, recover.of_run(run, "pytorch")) is None, report.text(found)


def test_an_altered_number_is_not_explained():
    run = run_of("SGD", options={"momentum": 0.9}, lr=0.1)

    def alter(found):
        entry = next(
            e for e in found.entries if (e.step, e.quantity, e.tensor) == (6, "param", "fc1.weight")
        )
        found.values[entry.first_row + 5] *= 1 + 3e-5

    found = diagnosed(run, alter)
    assert not found.explained
    assert "fc1.weight[5]" in report.closest(found)


def test_a_random_walk_is_not_explained():
    generator = np.random.default_rng(1)

    def walk(found):
        last = None
        for entry in found.entries:
            if entry.quantity == "param" and entry.tensor == "fc.weight":
                values = found.of(entry)
                if last is not None:
                    values[:] = (last + generator.normal(size=values.size) * 0.01).astype(
                        np.float32
                    )
                last = values.copy()

    found = diagnosed(run_of("SGD", problem="gradients"), walk)
    assert not found.explained
    assert report.headline(found).startswith("nothing explains this")


def test_a_rate_that_is_not_recorded_is_found():
    found = diagnose(of_trace(without(train(run_of("Adam", lr=0.02, options={"eps": 1e-4})), "lr")))
    assert found.explained
    assert found.best.rates_found
    assert found.best.rates == pytest.approx(0.02, rel=1e-4)
    assert "at rate 0.02 (found, not recorded)" in report.headline(found)


def test_weight_decay_too_small_to_show_is_said():
    found = diagnosed(run_of("SGD"))
    said = list(words.undecided(found.best, 10))
    assert any(
        "weight decay below" in text and "would not show in these 10 steps" in text for text in said
    )
    low, high = found.best.intervals["weight_decay"]
    assert low == 0.0
    assert 0 < high < 1e-4
    # The end is one that was tried: ten times as much does show.
    shown = diagnosed(run_of("SGD", options={"weight_decay": 10 * high}))
    assert shown.best.intervals["weight_decay"][0] > 0.0


@pytest.mark.parametrize(
    "how",
    [
        {"scope": "global", "max_norm": 0.1},
        {"scope": "global", "max_norm": 0.1, "norm_type": 3.0},
        {"scope": "per-parameter", "max_norm": 0.05, "norm_type": 2.0},
        {"scope": "value", "clip_value": 0.02},
    ],
    ids=lambda how: how["scope"] + str(how.get("norm_type", "")),
)
def test_recorded_clipping_is_read_off(how):
    found = clips.recorded(of_trace(train(run_of("SGD", clip=how))))
    assert found is not None and found.explained
    wanted = {"norm_type": 2.0, **how} if "max_norm" in how else how
    assert any(
        all(
            item[k] == pytest.approx(v, rel=1e-4) if k != "scope" else item[k] == v
            for k, v in wanted.items()
        )
        for item in [found.how, *found.others]
    )


def test_clipping_that_is_not_recorded_is_found():
    how = {"scope": "global", "max_norm": 0.1}
    cut = without(train(run_of("SGD", lr=0.1, clip=how)), "clipped_grad", "grad_norm")
    found = diagnose(of_trace(cut))
    assert found.explained
    assert found.best.hypothesis.clip["max_norm"] == pytest.approx(0.1, rel=1e-4)


def at(wanted_step, wanted_quantity, change):
    def found(step, quantity, tensor, values):
        here = (wanted_step in (None, step)) and quantity == wanted_quantity
        return change(step, quantity, tensor, values) if here else (step, quantity, tensor, values)

    return found


def holed(step, quantity, tensor, values):
    values.reshape(-1)[0] = np.nan
    return step, quantity, tensor, values


MALFORMED = {
    "no gradients": (at(None, "grad", lambda *a: None), "holds no gradients; record 'grad'"),
    "no parameters": (at(None, "param", lambda *a: None), "holds no parameters; record 'param'"),
    "no start": (at(0, "param", lambda *a: None), "holds no parameters at step 0"),
    "a first step without gradients": (
        at(1, "grad", lambda *a: None),
        "step 1 lacks the gradients",
    ),
    "a first step without parameters": (at(1, "param", lambda *a: None), "step 1 lacks the param"),
    "NaN from the start": (at(1, "grad", holed), "grad of fc.weight at step 1 is nan at index 0"),
    "a gradient of another name": (
        at(None, "grad", lambda s, q, t, v: (s, q, t.replace("fc", "dense"), v)),
        "give --map dense.weight=fc.weight",
    ),
    "transposed gradients": (
        at(None, "grad", lambda s, q, t, v: (s, q, t, v.T)),
        "if they are transposed, give --map fc.weight=fc.weight.T",
    ),
    "a start alone": (
        lambda s, q, t, v: (s, q, t, v) if s == 0 or q == "grad" else None,
        "is too short: it holds parameters at step 0 alone",
    ),
    "nothing moves": (
        lambda s, q, t, v: (s, q, t, v * 0) if q in ("grad", "param") else (s, q, t, v),
        "no number moved in 10 steps",
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_trace_that_lacks_something_gets_a_sentence(name):
    change, sentence = MALFORMED[name]
    with pytest.raises(PitbError) as raised:
        of_trace(rebuilt(train(run_of("SGD", problem="gradients")), change))
    assert sentence in str(raised.value)


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (at(6, "param", lambda *a: None), "step 6 lacks the parameters; only steps 1 to 5 were"),
        (at(6, "grad", holed), "grad of fc.weight at step 6 is nan at index 0; only steps 1 to 5"),
        (at(None, "lr", lambda *a: None), "no rate is recorded"),
    ],
    ids=["gap", "nan", "no rate"],
)
def test_what_is_left_of_a_trace_with_a_hole_is_used(change, note):
    recording = of_trace(rebuilt(train(run_of("SGD", problem="gradients")), change))
    assert any(note in text for text in recording.notes)
    assert diagnose(recording).explained


def test_mapped_tensors_are_diagnosed(tmp_path):
    def change(step, quantity, tensor, values):
        if quantity == "grad" and tensor == "fc.weight":
            return step, quantity, "dense.weight", values.T
        return step, quantity, tensor, values

    path = tmp_path / "x.parquet"
    trace.write(rebuilt(train(run_of("SGD", problem="gradients")), change), path)
    with pytest.raises(PitbError, match=r"give --map dense.weight=fc.weight.T"):
        load(path)
    assert diagnose(load(path, [parse_map("dense.weight=fc.weight.T")])).explained


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("fc.weight", "is not of the form old=new"), ("=x", "is not of the form old=new")],
)
def test_a_bad_map_gets_a_sentence(text, sentence):
    with pytest.raises(PitbError, match=sentence):
        parse_map(text)


def test_a_square_matrix_whose_gradients_are_transposed_is_found():
    run = run_of("Adam", problem="square", steps=4)
    recording = of_trace(train(run)).transposed("fc1.weight")
    found = diagnose(recording)
    assert found.transposed == ["fc1.weight"]
    assert "--map fc1.weight=fc1.weight.T" in report.text(found)


def test_two_traces_are_brought_together():
    a, b = (diagnose_file(TRACES / side / "rmsprop.parquet") for side in ("pytorch", "burn"))
    assert pair.sentence(a, b) == (
        "to bring them together, set momentum to 0.9 and eps to 1e-5 in the first, or momentum to "
        "0 and eps to 1e-8 in the second"
    )
    assert pair.sentence(a, a).startswith("nothing needs to change")


def test_a_renamed_and_transposed_tensor_of_a_second_trace_is_proposed():
    found = train(run_of("SGD", problem="gradients"))

    def change(step, quantity, tensor, values):
        if tensor == "fc.weight":
            return step, quantity, "dense.weight", values.T
        return step, quantity, tensor, values

    a, b = of_trace(found), of_trace(rebuilt(found, change))
    (proposal,) = pair.proposals(a, b)
    assert proposal.endswith("transposed: --map dense.weight=fc.weight.T")


def call(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "pitb", "diagnose", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent.parent / "scripts",
    )


def test_the_command_prints_json_and_its_exit_code():
    ended = call(TRACES / "burn/adagrad.parquet", "--json")
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert found["explained"]
    best = found["groups"][0]["explanations"][0]
    assert best["optimizer"] == "Adagrad"
    assert best["options"]["eps"] == pytest.approx(1e-5, rel=1e-4)


def test_the_command_refuses_what_is_no_trace(tmp_path):
    ended = call(tmp_path / "none.parquet")
    assert ended.returncode == 2
    assert "does not exist" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_command_says_1_where_nothing_explains_it(tmp_path):
    generator = np.random.default_rng(2)

    def change(step, quantity, tensor, values):
        if quantity == "param" and step:
            values = generator.normal(size=values.shape).astype(np.float32)
        return step, quantity, tensor, values

    path = tmp_path / "walk.parquet"
    trace.write(rebuilt(train(run_of("SGD", problem="single", steps=2)), change), path)
    ended = call(path)
    assert ended.returncode == 1, ended.stderr
    assert "nothing explains this" in ended.stdout


def test_the_command_needs_neither_torch_nor_matplotlib():
    code = (
        "import sys; import pitb.diagnose.diagnosis, pitb.diagnose.report, pitb.diagnose.pair; "
        "print([m for m in ('torch', 'scipy', 'timm', 'snakemake', 'matplotlib') "
        "if m in sys.modules])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent.parent / "scripts",
    )
    assert ended.stdout.strip() == "[]", ended.stderr


def test_help_has_examples(capsys):
    with pytest.raises(SystemExit):
        parser().parse_args(["diagnose", "--help"])
    assert "--map fc1.weight=fc1.weight.T" in capsys.readouterr().out


def test_withheld_configurations_do_not_matter():
    path = TRACES / "burn/rmsprop.parquet"
    lying = trace.read(path)
    lying.metadata["configuration"] = {"optimizer": "Lion", "options": {}}
    assert report.headline(diagnose(of_trace(replace(lying)))).startswith("this is RMSprop")
