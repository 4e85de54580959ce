import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

from pitb import compare, parts, trace
from pitb.errors import PitbError

torch = pytest.importorskip("torch")
from pitb.record import record  # noqa: E402

pytestmark = pytest.mark.torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = torch.nn.Linear(4, 8)
        self.fc2 = torch.nn.Linear(8, 3)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))


def net():
    torch.manual_seed(0)
    return Net()


X, Y = torch.randn(6, 4, generator=torch.Generator().manual_seed(1)), torch.arange(6) % 3


def loss_of(model):
    return torch.nn.functional.cross_entropy(model(X), Y)


def adamw(model, **options):
    return torch.optim.AdamW(model.parameters(), lr=0.01, **options)


def step(model, optimizer, recorder, max_norm=None):
    optimizer.zero_grad()
    recorder.loss(loss_of(model)).backward()
    if max_norm is not None:
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()


def train(folder, steps=7, model=None, optimizer=None, max_norm=None, **options):
    model = net() if model is None else model
    optimizer = adamw(model) if optimizer is None else optimizer
    with record(model, optimizer, folder, **options) as recorder:
        for _ in range(steps):
            step(model, optimizer, recorder, max_norm)
    return trace.read(folder)


def by_hand(steps=7, max_norm=None):
    """What a training has at each step, taken by plain copies."""
    model = net()
    optimizer = adamw(model)
    found = {}

    def take(step, quantity, values):
        for name, value in values:
            found[(step, quantity, name)] = value.detach().double().numpy().ravel().copy()

    def after(step):
        take(step, "param", model.named_parameters())
        for name, parameter in model.named_parameters():
            for state, value in optimizer.state.get(parameter, {}).items():
                take(step, f"state.{state}", [(name, value)])

    def gradients():
        return [(name, p.grad) for name, p in model.named_parameters()]

    after(0)
    for k in range(1, steps + 1):
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        take(k, "loss", [("", loss)])
        take(k, "grad", gradients())
        if max_norm is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
            take(k, "clipped_grad", gradients())
        optimizer.step()
        take(k, "lr", [("", torch.tensor(0.01, dtype=torch.float64))])
        after(k)
    return found


@pytest.mark.parametrize("max_norm", [None, 0.1])
@pytest.mark.parametrize("every", [1, 3])
def test_what_is_recorded_is_what_the_training_had(tmp_path, every, max_norm):
    found = train(tmp_path / "t", every=every, max_norm=max_norm)
    wanted = by_hand(max_norm=max_norm)
    recorded = {1, *range(every, 8, every)}
    before = {k - 1 for k in recorded} | {7}
    expected = {
        key
        for key in wanted
        if key[0] in recorded
        or (key[0] in before and (key[1] == "param" or key[1].startswith("state")))
    }
    assert {entry.key for entry in found.entries} == expected
    for entry in found.entries:
        np.testing.assert_array_equal(found.of(entry), wanted[entry.key], err_msg=entry.where)
    steps = [entry.step for entry in found.entries]
    assert steps == sorted(steps)
    assert found.configuration["steps"] == 7
    assert found.unfinished is None


def test_recording_changes_no_bit_of_the_training(tmp_path):
    plain, recorded = net(), net()
    optimizer = adamw(plain)
    for _ in range(5):
        optimizer.zero_grad()
        loss_of(plain).backward()
        optimizer.step()
    train(tmp_path, 5, recorded, every=2)
    for a, b in zip(plain.parameters(), recorded.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_recorded_update_can_be_made_again(tmp_path):
    """The trace alone holds what an update starts from and what it gives."""
    found = train(tmp_path, 6, every=3)
    model = net()
    optimizer = adamw(model)
    for name, parameter in model.named_parameters():

        def at(step, quantity, name=name, shape=parameter.shape):
            return torch.tensor(found.find(step, quantity, name), dtype=torch.float32).reshape(
                shape
            )

        parameter.data = at(5, "param")
        parameter.grad = at(6, "grad")
        optimizer.state[parameter] = {
            "step": torch.tensor(float(found.find(5, "state.step", name)[0])),
            "exp_avg": at(5, "state.exp_avg"),
            "exp_avg_sq": at(5, "state.exp_avg_sq"),
        }
    optimizer.step()
    for name, parameter in model.named_parameters():
        np.testing.assert_array_equal(
            found.find(6, "param", name), parameter.detach().double().numpy().ravel()
        )


def test_the_metadata_says_what_trained(tmp_path):
    found = train(tmp_path / "mine", 2)
    assert (found.run, found.metadata["side"]) == ("pytorch/mine", "pytorch")
    assert found.configuration["optimizer"] == "AdamW"
    assert found.configuration["options"] == {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in adamw(net()).defaults.items()
        if key != "lr"
    }
    assert found.configuration["lr"] == 0.01
    assert found.metadata["model"]["name"] == "Net"
    assert found.metadata["model"]["parameters"] == 67


def test_tensors_and_quantities_are_chosen(tmp_path):
    found = train(tmp_path, 2, tensors=["fc1.*"], quantities=["loss", "param"])
    assert {entry.quantity for entry in found.entries} == {"loss", "param"}
    assert {entry.tensor for entry in found.entries} == {"", "fc1.weight", "fc1.bias"}


def test_losses_and_gradients_of_micro_batches_are_added_up(tmp_path):
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with record(model, optimizer, tmp_path) as recorder:
        for _ in range(2):
            optimizer.zero_grad()
            for _ in range(2):
                recorder.loss(loss_of(model) / 2).backward()
            optimizer.step()
    found = trace.read(tmp_path)
    assert found.find(1, "loss")[0] == pytest.approx(loss_of(net()).item(), rel=1e-6)
    assert len(found.select(1, "loss")) == 1


def test_the_loss_after_the_last_update_is_that_of_the_trained_model(tmp_path):
    model = net()
    optimizer = adamw(model)
    with record(model, optimizer, tmp_path) as recorder:
        for _ in range(3):
            step(model, optimizer, recorder)
        recorder.loss(loss_of(model))
    assert trace.read(tmp_path).find(4, "loss")[0] == float(loss_of(model))


def test_a_loss_after_its_update_is_refused(tmp_path):
    model = net()
    optimizer = adamw(model)
    with (
        pytest.raises(PitbError, match=r"after the optimizer\.step\(\) that it belongs to"),
        record(model, optimizer, tmp_path) as recorder,
    ):
        for _ in range(2):
            optimizer.zero_grad()
            loss = loss_of(model)
            loss.backward()
            optimizer.step()
            recorder.loss(loss)


def test_gradients_that_never_reach_the_optimizer_are_left_out(tmp_path):
    model = net()
    model.fc1.bias.requires_grad_(False)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    found = train(tmp_path, 2, model, optimizer)
    assert (1, "grad", "fc1.bias") not in found.by_key()
    assert (2, "param", "fc1.bias") in found.by_key()


def test_a_tied_weight_stands_under_both_names(tmp_path):
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Linear(4, 4, bias=False)
            self.b = torch.nn.Linear(4, 4, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x))

    model = Tied()
    found = train(tmp_path, 1, model, adamw(model))
    assert [entry.tensor for entry in found.select(1, "param")] == ["a.weight", "b.weight"]
    assert [entry.tensor for entry in found.select(1, "grad")] == ["a.weight"]
    assert found.metadata["model"]["parameters"] == 16


def test_each_group_has_its_rate(tmp_path):
    model = net()
    optimizer = torch.optim.SGD(
        [{"params": model.fc1.parameters(), "lr": 0.1}, {"params": model.fc2.parameters()}], lr=0.2
    )
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    with record(model, optimizer, tmp_path) as recorder:
        for _ in range(2):
            step(model, optimizer, recorder)
            scheduler.step()
    found = trace.read(tmp_path)
    rates = {(e.step, e.tensor): found.of(e)[0] for e in found.entries if e.quantity == "lr"}
    assert rates[(1, "")] == 0.1
    assert (rates[(2, "fc1.weight")], rates[(2, "fc2.bias")]) == (0.05, 0.1)
    (group,) = found.configuration["groups"]
    assert (group["parameters"], group["lr"]) == (["fc2.weight", "fc2.bias"], 0.2)


def test_an_option_that_a_schedule_changes_is_recorded(tmp_path):
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with record(model, optimizer, tmp_path) as recorder:
        for _ in range(2):
            step(model, optimizer, recorder)
            optimizer.param_groups[0]["momentum"] = 0.5
    found = trace.read(tmp_path)
    assert found.find(2, "option.momentum")[0] == 0.5
    assert not found.select(1, "option.momentum")


def test_two_optimizers_make_one_update(tmp_path):
    model = net()
    matrices = [p for p in model.parameters() if p.ndim == 2]
    vectors = [p for p in model.parameters() if p.ndim == 1]
    optimizers = [torch.optim.SGD(matrices, lr=0.1), torch.optim.Adam(vectors, lr=0.2)]
    with record(model, optimizers, tmp_path / "t") as recorder:
        for _ in range(3):
            model.zero_grad()
            recorder.loss(loss_of(model)).backward()
            for optimizer in optimizers:
                optimizer.step()
    found = trace.read(tmp_path / "t")
    assert found.configuration["steps"] == 3
    assert [group["optimizer"] for group in found.configuration["groups"]] == ["Adam"]
    with (
        pytest.raises(PitbError, match=r"SGD \(number 1\) stepped twice before Adam \(number 2\)"),
        record(model, optimizers, tmp_path / "twice") as recorder,
    ):
        loss_of(model).backward()
        optimizers[0].step()
        optimizers[0].step()


@pytest.mark.parametrize("given_as", ["argument", "keyword"])
def test_lbfgs_is_recorded_from_its_first_evaluation(tmp_path, given_as):
    model = net()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4)
    first = loss_of(model)
    gradient = torch.autograd.grad(first, model.fc1.weight)[0]
    with record(model, optimizer, tmp_path):

        def closure():
            optimizer.zero_grad()
            loss = loss_of(model)
            loss.backward()
            return loss

        for _ in range(2):
            optimizer.step(closure) if given_as == "argument" else optimizer.step(closure=closure)
    found = trace.read(tmp_path)
    assert found.find(1, "loss")[0] == float(first)
    np.testing.assert_array_equal(found.find(1, "grad", "fc1.weight"), gradient.double().flatten())
    assert len(found.select(2, "loss")) == 1
    assert found.select(2, "state.n_iter")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_every_float_is_exact(tmp_path, dtype):
    model = net().to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with record(model, optimizer, tmp_path) as recorder:
        recorder.loss(model(X.to(dtype)).float().square().mean()).backward()
        optimizer.step()
    found = trace.read(tmp_path)
    for name, parameter in model.named_parameters():
        wanted = parameter.detach().double().flatten()
        np.testing.assert_array_equal(found.find(1, "param", name), wanted)
    assert found.by_key()[(1, "param", "fc1.weight")].dtype == str(dtype).removeprefix("torch.")


def test_a_tensor_that_is_not_contiguous_is_in_row_major_order(tmp_path):
    model = net()
    model.fc1.weight.data = model.fc1.weight.data.t().contiguous().t()
    found = train(tmp_path, 1, model, adamw(model))
    wanted = model.fc1.weight.detach().double().numpy().ravel()
    np.testing.assert_array_equal(found.find(1, "param", "fc1.weight"), wanted)


def scaled(tmp_path, overflow_at=None, **options):
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    options = {"scaler": scaler, **options}
    with record(model, optimizer, tmp_path, **options) as recorder:
        for k in range(3):
            optimizer.zero_grad()
            loss = loss_of(model) * (float("inf") if k == overflow_at else 1)
            recorder.loss(loss)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    return trace.read(tmp_path)


def test_scaled_gradients_are_recorded_unscaled(tmp_path):
    found = scaled(tmp_path)
    wanted = torch.autograd.grad(loss_of(model := net()), model.fc1.weight)[0].double().flatten()
    np.testing.assert_allclose(found.find(1, "grad", "fc1.weight"), wanted, rtol=1e-6)
    assert not found.select(1, "clipped_grad")


def test_an_update_that_a_scaler_skips_is_none(tmp_path):
    found = scaled(tmp_path, overflow_at=1)
    assert found.configuration["steps"] == 2
    assert np.isfinite(found.values).all()
    assert len(found.select(2, "loss")) == 1


def test_a_scaler_that_was_not_given_is_noticed(tmp_path):
    with pytest.raises(PitbError, match="gradients are scaled by 1024; give record"):
        scaled(tmp_path, scaler=None)


def test_an_exception_leaves_the_trace_and_its_message(tmp_path):
    model = net()
    optimizer = adamw(model)
    with (
        pytest.raises(RuntimeError, match="out of data"),
        record(model, optimizer, tmp_path) as recorder,
    ):
        for _ in range(3):
            step(model, optimizer, recorder)
        raise RuntimeError("out of data\nand more")
    found = trace.read(tmp_path)
    assert found.error == "RuntimeError: out of data"
    assert found.unfinished == "recorded to step 3 and not ended: RuntimeError: out of data"
    assert not optimizer._optimizer_step_pre_hooks


def test_after_the_context_nothing_is_recorded(tmp_path):
    model = net()
    optimizer = adamw(model)
    with record(model, optimizer, tmp_path) as recorder:
        step(model, optimizer, recorder)
    files = {path: path.read_bytes() for path in tmp_path.iterdir()}
    step(model, optimizer, recorder)
    recorder.inputs(x=X)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == files


def test_two_recorders_see_one_training(tmp_path):
    model = net()
    optimizer = adamw(model)
    with (
        record(model, optimizer, tmp_path / "a") as a,
        record(model, optimizer, tmp_path / "b", every=2) as b,
    ):
        for _ in range(4):
            optimizer.zero_grad()
            b.loss(a.loss(loss_of(model))).backward()
            optimizer.step()
    a, b = trace.read(tmp_path / "a"), trace.read(tmp_path / "b")
    assert a.find(4, "loss")[0] == b.find(4, "loss")[0]


def test_inputs_logits_and_norms_are_recorded_where_they_are_told(tmp_path):
    model = net()
    optimizer = adamw(model)
    with record(model, optimizer, tmp_path, every=2) as recorder:
        for _ in range(2):
            optimizer.zero_grad()
            recorder.inputs(x=X, y=Y)
            logits = recorder.logits(model(X))
            recorder.loss(torch.nn.functional.cross_entropy(logits, Y)).backward()
            recorder.grad_norm(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1))
            optimizer.step()
    found = trace.read(tmp_path)
    np.testing.assert_array_equal(found.find(2, "input", "y"), Y)
    assert found.by_key()[(2, "logits", "")].shape == (6, 3)
    assert found.find(2, "grad_norm")[0] > 0.1


def test_a_training_is_taken_up_again(tmp_path):
    model = net()
    optimizer = adamw(model)
    with record(model, optimizer, tmp_path / "first", every=2) as recorder:
        for _ in range(4):
            step(model, optimizer, recorder)
    with record(model, optimizer, tmp_path / "second", every=2, start=4) as recorder:
        for _ in range(4):
            step(model, optimizer, recorder)
    found = trace.read(tmp_path / "second")
    assert (found.entries[0].step, found.configuration["steps"]) == (4, 8)
    first = trace.read(tmp_path / "first")
    np.testing.assert_array_equal(
        found.find(4, "state.exp_avg", "fc1.bias"), first.find(4, "state.exp_avg", "fc1.bias")
    )


def test_prefixes_of_wrappers_are_not_in_the_names(tmp_path):
    model = net()
    model.fc1 = torch.compile(model.fc1, backend="eager")
    wrapped = torch.nn.DataParallel(model)
    found = train(tmp_path, 1, wrapped, adamw(model))
    assert [entry.tensor for entry in found.select(1, "grad")] == [
        "fc1.weight",
        "fc1.bias",
        "fc2.weight",
        "fc2.bias",
    ]
    assert found.metadata["model"]["name"] == "Net"


def test_a_forked_process_does_not_write(tmp_path):
    model = net()
    optimizer = adamw(model)
    with record(model, optimizer, tmp_path) as recorder:
        step(model, optimizer, recorder)
        child = os.fork() if hasattr(os, "fork") else pytest.skip("no fork here")
        if child == 0:
            code = 1
            try:
                optimizer.step()
                recorder.__exit__(None, None, None)
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        step(model, optimizer, recorder)
    assert trace.read(tmp_path).configuration["steps"] == 2


def complex_model():
    model = net()
    model.phase = torch.nn.Parameter(torch.zeros(2, dtype=torch.complex64))
    return model


def sparse_model():
    model = net()
    model.mask = torch.nn.Parameter(torch.eye(3).to_sparse())
    return model


def meta_model():
    model = net()
    model.far = torch.nn.Parameter(torch.zeros(2, device="meta"))
    return model


def lazy_model():
    return torch.nn.Sequential(torch.nn.LazyLinear(3))


@pytest.mark.parametrize(
    ("model", "options", "sentence"),
    [
        (complex_model, {}, "the parameter phase is of dtype complex64"),
        (sparse_model, {}, "the parameter mask is sparse"),
        (meta_model, {}, "the parameter far is on the meta device"),
        (lazy_model, {}, "the parameter 0.weight is not initialized"),
        (net, {"every": 0}, "every is 0, not a whole number of 1 or more"),
        (net, {"every": True}, "every is True"),
        (net, {"start": -1}, "start is -1"),
        (net, {"tensors": ["fc3.*"]}, r"no parameter is like 'fc3.\*'; nearest: 'fc1.bias'"),
        (net, {"tensors": "fc1.weight"}, "tensors is 'fc1.weight', which is text"),
        (net, {"quantities": ["grads"]}, "no quantity 'grads'; nearest: 'grad'"),
        (torch.nn.ReLU, {}, "the model ReLU has no parameters"),
    ],
)
def test_what_cannot_be_recorded_is_refused(tmp_path, model, options, sentence):
    model = model()
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    with pytest.raises(PitbError, match=sentence) as caught:
        record(model, optimizer, tmp_path / "t", **options)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "t").exists()


def test_other_mistakes_are_named(tmp_path):
    model = net()
    with pytest.raises(PitbError, match=r"SGD trains a parameter of shape \(1,\) that the model"):
        record(model, torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1), tmp_path)
    with pytest.raises(PitbError, match="there is no optimizer"):
        record(model, [], tmp_path)
    optimizer = adamw(model)
    with record(model, optimizer, tmp_path) as recorder:
        with pytest.raises(PitbError, match=r"the loss has shape \(2,\)"):
            recorder.loss(torch.zeros(2))
        with pytest.raises(PitbError, match="entered already"):
            recorder.__enter__()
    with (
        pytest.raises(PitbError, match="holds a trace already"),
        record(model, optimizer, tmp_path),
    ):
        pass
    with record(model, optimizer, tmp_path, overwrite=True):
        pass
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(PitbError, match="cannot record into"),
        record(model, optimizer, tmp_path / "file"),
    ):
        pass


def test_a_sparse_gradient_is_refused(tmp_path):
    model = torch.nn.Embedding(5, 2, sparse=True)
    optimizer = torch.optim.SparseAdam(model.parameters())
    with (
        pytest.raises(PitbError, match="the gradient of weight is sparse"),
        record(model, optimizer, tmp_path),
    ):
        model(torch.tensor([1])).sum().backward()


def test_recorded_trainings_are_compared(tmp_path):
    train(tmp_path / "a", every=3)
    train(tmp_path / "b", every=3)
    other = net()
    train(tmp_path / "c", every=3, model=other, optimizer=adamw(other, eps=1e-5))
    same = compare.compare_files(tmp_path / "a", tmp_path / "b", 0.0)
    assert same.verdict == compare.OK
    assert same.steps() == [1, 2, 3, 5, 6, 7]
    assert compare.compare_files(tmp_path / "a", tmp_path / "c", 1e-6).verdict == compare.MISMATCH
    train(tmp_path / "d", every=2)
    with pytest.raises(compare.NotComparable, match="has no"):
        compare.compare_files(tmp_path / "a", tmp_path / "d", 0.0)


LOOP = """
    import sys, torch
    from pitb.record import record
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Linear(600, 500)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with record(model, optimizer, sys.argv[1], every=2) as recorder:
        for _ in range(int(sys.argv[2])):
            optimizer.zero_grad()
            recorder.loss(model(torch.ones(2, 600)).square().mean()).backward()
            optimizer.step()
"""


def test_a_killed_training_leaves_a_trace(tmp_path, root):
    def run(name, steps):
        command = [sys.executable, "-c", textwrap.dedent(LOOP), tmp_path / name, str(steps)]
        environment = {**os.environ, "PYTHONPATH": str(root / "scripts")}
        return subprocess.Popen(command, env=environment)

    training = run("killed", 10**9)
    deadline = time.monotonic() + 50
    while not parts.part_path(tmp_path / "killed", 4).exists() and time.monotonic() < deadline:
        time.sleep(0.002)
    training.send_signal(signal.SIGKILL)
    training.wait()
    killed = trace.read(tmp_path / "killed")
    last = killed.entries[-1].step
    assert killed.unfinished.startswith(f"recorded to step {last} and not ended")
    assert run("whole", last + 10).wait() == 0
    found = compare.compare_files(tmp_path / "killed", tmp_path / "whole", 0.0)
    assert found.rows and all(row.verdict == compare.OK for row in found.rows)
    assert found.partial.startswith(f"only steps up to {last} are compared: pytorch/killed was")
    assert found.exit_code == 2


def test_memory_does_not_grow(tmp_path):
    """Of two recordings the longer one has no more buffers."""
    model = torch.nn.Linear(600, 500)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    sizes = []
    with record(model, optimizer, tmp_path) as recorder:
        for k in range(12):
            optimizer.zero_grad()
            recorder.loss(model(torch.ones(2, 600)).square().mean()).backward()
            optimizer.step()
            if k > 3:
                held = [tensor for pool in recorder._pools for tensor in pool.values()]
                sizes.append(sum(tensor.numel() for tensor in held))
    assert len(set(sizes)) == 1


def test_the_package_is_light(root):
    code = "import sys, pitb, pitb.record; sys.exit('torch' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(root / "scripts")}
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == 0
