import json
import math

import pytest

from pitb import a1, by_hand, page_json
from pitb.errors import PitbError

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def pytorch():
    import torch

    torch.set_num_threads(1)
    from pitb import pytorch

    return pytorch


def spec(**changes):
    return {"id": "pytorch/x", "optimizer": "SGD", "lr": 0.1, "steps": 2, **changes}


def test_the_burn_side_is_tested_against_the_pytorch_that_is_installed(pytorch, root):
    import make_clip_cases

    kept, now = json.loads(make_clip_cases.FILE.read_text()), make_clip_cases.cases()
    # What goes in is exact; what comes out is set by the order of f32 additions.
    for case, other in zip(kept, now, strict=True):
        for key in ("name", "max_norm", "gradients"):
            assert case[key] == other[key]
        assert close(case["total_norm"], other["total_norm"])
        assert case["clipped"].keys() == other["clipped"].keys()
        for name, values in case["clipped"].items():
            assert all(map(close, values, other["clipped"][name]))


def close(a, b):
    """The same text, or numbers within some ulp of f32."""
    return a == b if isinstance(a, str) else a == pytest.approx(b, rel=1e-6, abs=0)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"optimizer": "Sgd"}, "torch.optim has no optimizer 'Sgd'; nearest: 'SGD'"),
        ({"optimizer": "lr_scheduler"}, "torch.optim has no optimizer .lr_scheduler."),
        ({"options": {"momentun": 0.9}}, "has no option 'momentun'; nearest: 'momentum'"),
        ({"options": {"lr": 0.9}}, "has no option 'lr'"),
        ({"options": {"momentum": -1}}, "refuses its options: Invalid momentum"),
        ({"options": {"nesterov": True}}, "refuses its options: Nesterov"),
        ({"options": {"momentum": "no"}}, "momentum of torch.optim.SGD is 'no', not a number"),
        ({"options": {"momentum": True}}, "momentum of torch.optim.SGD is True, not a number"),
        ({"options": {"nesterov": "no"}}, "nesterov of torch.optim.SGD is 'no', not true or false"),
        ({"options": {"maximize": "off"}}, "maximize of torch.optim.SGD is 'off', not true or"),
        ({"options": {"foreach": "no"}}, "foreach of torch.optim.SGD is 'no', not true or false"),
        ({"options": {"nesterov": 1}}, "nesterov of torch.optim.SGD is 1, not true or false"),
        ({"optimizer": "Adam", "options": {"betas": [0.9]}}, "refuses its options"),
        ({"lr": math.nan}, "must be finite"),
        ({"steps": 0}, "must be finite and 1 up"),
    ],
)
def test_a_wrong_specification_is_refused_before_anything_is_trained(
    pytorch, tmp_path, changes, sentence
):
    sources = {"options": "config.yaml, line 3", "options.momentun": "config.yaml, line 4"}
    wrong = spec(sources=sources, **changes)
    with pytest.raises(PitbError, match=f"config.yaml, line [34]: run pytorch/x: .*{sentence}"):
        pytorch.train_all([spec(), wrong], tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["pytorch/../x", "pytorch/", "burn/x", "x", "pytorch/a/b", None])
def test_an_id_is_a_side_and_a_name(pytorch, tmp_path, name):
    with pytest.raises(PitbError, match="is not of the form pytorch/<name>"):
        pytorch.train_all([spec(id=name)], tmp_path / "traces")
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_raises_leaves_what_it_made_and_the_others_go_on(pytorch, tmp_path):
    # Muon takes matrices, and A1 has biases.
    runs = [spec(id="pytorch/a", optimizer="Muon"), spec(id="pytorch/b")]
    pytorch.train_all(runs, tmp_path)
    from pitb import trace

    failed, whole = (trace.read(tmp_path / f"pytorch/{name}.parquet") for name in "ab")
    assert "2D" in failed.error
    assert failed.configuration["options"]["momentum"] == 0.95
    assert whole.error is None
    assert whole.find(3, "loss").size == 1
    assert page_json.step_json(failed) == {"error": failed.error}


def test_lbfgs_evaluates_often_and_is_recorded_once(pytorch):
    recorded = pytorch.train(spec(optimizer="LBFGS", lr=0.5, steps=2))
    assert recorded.error is None
    assert len(recorded.select(1, "logits")) == len(recorded.select(1, "loss")) == 1
    assert recorded.find(1, "loss")[0] > recorded.find(3, "loss")[0]


def test_a_run_that_diverges_is_traced_and_written_to_the_end(pytorch, tmp_path):
    from pitb import trace

    pytorch.train_all([spec(lr=1e38, steps=3)], tmp_path)
    found = trace.read(tmp_path / "pytorch/x.parquet")
    assert not math.isfinite(found.find(4, "loss")[0])
    assert page_json.steps_json(found)["steps"][2]["loss"] in ("nan", "inf")


def test_the_start_is_that_of_the_problem(pytorch):
    recorded = pytorch.train(spec())
    for name, values in a1.parameters().items():
        assert recorded.find(0, "param", name).tolist() == values.reshape(-1).tolist()
    assert math.copysign(1, recorded.find(0, "param", "fc2.bias")[0]) == -1
    assert recorded.metadata["model"]["parameters"] == 67
    assert recorded.metadata["threads"] == 1


def test_an_observed_run_ends_as_a_plain_one(pytorch):
    import torch

    x, y = pytorch.batch()
    model = pytorch.mlp()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    recorded = pytorch.train(spec(optimizer="AdamW", lr=0.01, steps=3))
    for name, parameter in model.named_parameters():
        found = recorded.find(3, "param", name)
        assert found.tolist() == parameter.detach().reshape(-1).tolist()


def test_every_hyperparameter_is_in_the_configuration(pytorch):
    configuration = pytorch.train(spec(optimizer="RMSprop")).configuration
    assert configuration["options"]["momentum"] == 0
    assert configuration["options"]["eps"] == 1e-8
    assert configuration["lr"] == 0.1


def test_the_defaults_hold_every_hyperparameter_of_the_list(pytorch):
    from pitb import defaults
    from pitb.registry import published_optimizers

    found = pytorch.defaults()
    for optimizer in published_optimizers():
        for item in optimizer.hyperparameters:
            defaults.pytorch_default(found[optimizer.pytorch], item)


@pytest.mark.parametrize("scope", ["global", "per-parameter"])
def test_clipped_gradients_have_the_norm_that_is_allowed(pytorch, scope):
    import numpy as np

    recorded = pytorch.train(spec(steps=1, clip={"scope": scope, "max_norm": 0.1}))
    clipped = [recorded.of(entry) for entry in recorded.select(1, "clipped_grad")]
    norms = [recorded.of(entry)[0] for entry in recorded.select(1, "grad_norm")]
    if scope == "global":
        assert len(norms) == 1
        assert np.linalg.norm(np.concatenate(clipped)) == pytest.approx(0.1, rel=1e-4)
    else:
        assert len(norms) == 4
        expected = [min(norm, 0.1) for norm in norms]
        assert [np.linalg.norm(c) for c in clipped] == pytest.approx(expected, rel=1e-4)


def test_the_moves_are_data_and_text(pytorch):
    from pitb import moves

    found = moves.moves()
    assert found["step"]["alias_after"] == found["step"]["after"]
    assert found["step"]["clone_after"] == found["step"]["before"]
    lines = moves.console(found).splitlines()
    assert lines[0] == f"fc2.bias before          {found['step']['before']}"
    assert lines[5] == "same object, same buffer: True True"


def test_page_json_has_the_structure_of_both_sides(pytorch):
    recorded = pytorch.train(spec(steps=1))
    found = page_json.step_json(recorded)
    assert list(found) == ["logits", "loss", "grads", "params_after", "loss_after"]
    assert list(found["grads"]) == list(a1.parameters())
    assert len(found["grads"]["fc1.weight"]) == 8


@pytest.mark.parametrize("pairs", [["a"], ["a=no"], ["a=1", "a=2"]])
def test_options_that_are_not_understood_are_refused(pairs):
    with pytest.raises(PitbError, match="--set"):
        by_hand.options(pairs)


def gradients(**changes):
    return spec(problem="gradients", **changes)


@pytest.mark.parametrize("optimizer", ["LBFGS", "SGD"])
def test_what_needs_a_loss_is_refused_where_gradients_are_prescribed(pytorch, optimizer):
    if optimizer == "SGD":
        pytorch.check(gradients())
        return
    with pytest.raises(PitbError, match="run pytorch/x: LBFGS needs a loss, and a prescribed"):
        pytorch.check(gradients(optimizer=optimizer))
    pytorch.check(spec(optimizer=optimizer))


def test_a_run_that_is_listed_twice_is_refused(pytorch, tmp_path):
    with pytest.raises(PitbError, match="run pytorch/x is listed twice"):
        pytorch.train_all([spec(), spec(lr=1.0)], tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("steps", [2**31 - 1, 2**40])
def test_more_steps_than_a_trace_can_count_are_refused(pytorch, steps):
    with pytest.raises(PitbError, match=f"steps is {steps}; it must be 2147483646 or less"):
        pytorch.check(spec(steps=steps))


@pytest.mark.parametrize("key", ["parameters", "optimizer", "lr"])
def test_a_group_lacks_no_key(pytorch, key):
    group = {"parameters": ["fc1.bias"], "optimizer": "Adam", "lr": 0.1}
    pytorch.check(spec(groups=[group]))
    del group[key]
    with pytest.raises(PitbError, match=f"run pytorch/x: a group lacks the key '{key}'"):
        pytorch.check(spec(groups=[group]))


RESUMED = {"resume_step": 2, "steps": 4}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"optimizer": "Adam"}, "a run with the optimizer SGD, not Adam"),
        ({"problem": "wide"}, "a run with the problem a1, not wide"),
        ({"dtype": "float64"}, "a run with the dtype float32, not float64"),
        ({"lr": 0.2}, "a run with lr=0.1, not 0.2"),
        ({"options": {"momentum": 0.5}}, "a run with momentum=0, not 0.5"),
        ({"resume_step": 3}, 'after 2 updates, but "resume_step" is 3'),
        (
            {"groups": [{"parameters": ["fc1.bias"], "optimizer": "Adam", "lr": 0.1}]},
            "a run with the optimizer SGD, not SGD, Adam",
        ),
        ({"frozen": ["fc1.bias"]}, "ValueError: loaded state dict contains a parameter group"),
    ],
)
def test_what_another_run_has_saved_is_refused_before_anything_is_trained(
    pytorch, tmp_path, changes, sentence
):
    path = str(tmp_path / "saved")
    pytorch.train(spec(save=path))
    wrong = spec(**{**RESUMED, **changes, "resume": path, "id": "pytorch/wrong"})
    with pytest.raises(PitbError) as error:
        pytorch.train_all([spec(), wrong], tmp_path / "traces")
    start = f"run pytorch/wrong: {path} cannot be resumed from: "
    assert str(error.value).startswith(start)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "traces").exists()
    pytorch.train(spec(**RESUMED, resume=path))


@pytest.mark.parametrize("content", [None, b"", b"{}", "half", "list"])
def test_a_file_that_is_no_checkpoint_is_refused(pytorch, tmp_path, content):
    import torch

    path = tmp_path / "saved"
    pytorch.train(spec(save=str(path)))
    whole = path.read_bytes()
    path.unlink()
    if content == "list":
        torch.save([1], path)
    elif content is not None:
        path.write_bytes(whole[: len(whole) // 2] if content == "half" else content)
    with pytest.raises(PitbError, match="saved cannot be resumed from: ") as error:
        pytorch.train(spec(**RESUMED, resume=str(path)))
    assert "\n" not in str(error.value)


def test_a_batch_can_go_on_from_what_it_saves(pytorch, tmp_path):
    path = str(tmp_path / "saved")
    first = spec(id="pytorch/first", save=path)
    pytorch.train_all([first, spec(**RESUMED, resume=path)], tmp_path)
    whole, resumed = pytorch.train(spec(steps=4)), pytorch.train(spec(**RESUMED, resume=path))
    for name in ("fc1.weight", "fc2.bias"):
        assert (whole.find(4, "param", name) == resumed.find(4, "param", name)).all()


def test_what_cannot_be_saved_is_refused(pytorch, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(PitbError, match="run pytorch/x: cannot write"):
        pytorch.train(spec(save=str(tmp_path / "file/saved")))
