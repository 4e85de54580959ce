"""Recording one's own PyTorch training as a trace.

::

    from pitb.record import record

    with record(model, optimizer, "traces/mine", every=10) as recorder:
        for x, y in loader:
            optimizer.zero_grad()
            loss = loss_function(model(x), y)
            recorder.loss(loss).backward()
            optimizer.step()
        recorder.loss(loss_function(model(x), y))  # of the trained model, if wanted

The rest is seen by hooks. What stands in the trace at which step is what `pitb.trace` says: the
loss and the gradients of step k belong to the parameters that update k starts from, parameters and
states are those after it. Recorded are update 1 and every n-th one, each with the parameters and
states before it, so that it can be computed again from the trace alone.
"""

import os
import platform
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

import pitb
from pitb import trace
from pitb.errors import PitbError, nearest
from pitb.part_writer import Item, PartWriter
from pitb.recordable import (
    called,
    check_optimizers,
    check_parameter,
    configuration,
    dtype_name,
    is_number,
    matches,
    named_parameters,
    options_of,
    prepare,
    rank,
    states,
    unwrapped,
)

if TYPE_CHECKING:
    import torch

QUANTITIES = ("input", "logits", "loss", "grad", "grad_norm", "clipped_grad", "lr", "param")
"""What can be recorded, in the order in which it stands within a step; then ``state``."""
SCALED = 2.0**8
"""A loss whose gradient is a power of two from here on was scaled by a GradScaler."""


def record(
    model: "torch.nn.Module",
    optimizer: "torch.optim.Optimizer | Sequence[torch.optim.Optimizer]",
    folder: str | Path,
    *,
    every: int = 1,
    tensors: Iterable[str] | None = None,
    quantities: Iterable[str] | None = None,
    clipped: bool | None = None,
    scaler: "torch.amp.GradScaler | None" = None,
    start: int = 0,
    overwrite: bool = False,
) -> "Recorder":
    """A context in which the updates of ``optimizer`` are recorded.

    Args:
        model: What is trained. Its parameters keep their names in the ``state_dict``, without the
            prefixes of ``torch.compile`` and ``DistributedDataParallel``.
        optimizer: What trains it; several where each steps once an update, as Muon beside AdamW.
        folder: Where the trace goes; it is made, and must hold no trace yet.
        every: Which updates to record: the first, and those whose number this divides.
        tensors: Names, or patterns with ``*`` and ``?``, of the tensors to record (default: all).
        quantities: Of `QUANTITIES` and ``state``, what to record (default: all).
        clipped: Whether to record gradients as the optimizer was given them beside those that
            ``backward`` gave (default: from the first recorded update on in which they differ).
        scaler: The GradScaler of a training in mixed precision. Gradients are recorded unscaled.
        start: The updates made before, of a training that is taken up again.
        overwrite: Whether to delete a trace that the folder holds.

    Returns:
        A recorder, to be used in a ``with``. In processes of a distributed training other than the
        first, it records nothing.

    Raises:
        PitbError: The folder holds a trace, a pattern or a quantity is unknown, or a parameter is
            complex, sparse, distributed or not initialized.
    """
    optimizers = list(optimizer) if isinstance(optimizer, Sequence) else [optimizer]
    return Recorder(
        model,
        optimizers,
        Path(folder),
        every=every,
        tensors=None if tensors is None else _listed(tensors, "tensors"),
        quantities=None if quantities is None else _listed(quantities, "quantities"),
        clipped=clipped,
        scaler=scaler,
        start=start,
        overwrite=overwrite,
    )


def _listed(given: Iterable[str], what: str) -> list[str]:
    if isinstance(given, str):
        raise PitbError(f"{what} is {given!r}, which is text; give a list of texts")
    return list(given)


class Recorder:
    """Records a training; `record` makes one.

    What it is told by its methods belongs to the next update, so tell it before
    ``optimizer.step()``; what is told after the last update belongs to the trained model, at the
    step after the last.
    """

    def __init__(
        self,
        model: "torch.nn.Module",
        optimizers: list["torch.optim.Optimizer"],
        folder: Path,
        *,
        every: int,
        tensors: list[str] | None,
        quantities: list[str] | None,
        clipped: bool | None,
        scaler: Any,
        start: int,
        overwrite: bool,
    ) -> None:
        """Check what is asked for; nothing is written before the recorder is entered."""
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise PitbError(f"every is {every!r}, not a whole number of 1 or more")
        if isinstance(start, bool) or not isinstance(start, int) or start < 0:
            raise PitbError(f"start is {start!r}, not a whole number of 0 or more")
        known = [*QUANTITIES, "state"]
        for name in quantities or ():
            if name not in known:
                raise PitbError(f"no quantity {name!r}; nearest: {nearest(name, known)!r}")
        self._all = named_parameters(model)
        self._named = {name: p for name, p in self._all.items() if matches(name, tensors)}
        for pattern in tensors or ():
            if not any(matches(name, [pattern]) for name in self._all):
                near = nearest(pattern, self._all)
                raise PitbError(f"tensors: no parameter is like {pattern!r}; nearest: {near!r}")
        for name, parameter in self._named.items():
            check_parameter(name, parameter)
        self._first_names: dict[str, torch.nn.Parameter] = {}
        for name, parameter in self._named.items():
            if not any(parameter is other for other in self._first_names.values()):
                self._first_names[name] = parameter
        self._optimizers = optimizers
        check_optimizers(optimizers, self._all)
        self._model = model
        self._folder = folder
        self._every = every
        self._quantities = set(quantities or known)
        self._clipped = clipped
        self._scaler = scaler
        self._step = start
        self._start = start
        self._overwrite = overwrite
        self._writer: PartWriter | None = None
        self._entered = False
        self._pid = os.getpid()
        self._hooks: list[Any] = []
        self._gradient_hooks: list[Any] = []
        self._stepped: set[int] = set()
        self._recorded = -1
        """The last step after which parameters were recorded."""
        self._losses: list[_Loss] = []
        self._noted: dict[tuple[str, str], Any] = {}
        self._noticed: list[_Loss] = []
        """The losses of the first evaluation by a closure."""
        self._went_backward = False
        self._evaluated = False
        """Whether the closure of an update was called already."""
        self._block: dict[str, list[Item]] = {}
        self._taken: dict[str, Item] = {}
        """Gradients of the update to come as ``backward`` gave them, by tensor."""
        self._pools: list[dict[tuple[Any, ...], torch.Tensor]] = [{}, {}]
        self._options = options_of(optimizers)

    # -- what the training tells ---------------------------------------------------------------

    def loss(self, loss: Any) -> Any:
        """Note the loss, a number or a tensor of one element, of the next update; returns it.

        Several until the next update are added up, as their gradients are.

        Raises:
            PitbError: It has more than one element.
        """
        if self._writer is None:
            return loss
        if getattr(loss, "numel", lambda: 1)() != 1:
            shape = tuple(loss.shape)
            raise PitbError(f"the loss has shape {shape}; give the one number that is minimised")
        if self._went_backward and all(p.grad is None for p in self._first_names.values()):
            # An update was skipped, as a GradScaler does where gradients overflow.
            self._losses.clear()
            self._went_backward = False
        noted = _Loss(loss, self._went_backward)
        self._losses.append(noted)
        if self._due and getattr(loss, "requires_grad", False):
            noted.hook = loss.register_hook(noted.flowed)
        return loss

    def inputs(self, **tensors: Any) -> None:
        """Note tensors that the next update is computed from, ``inputs(x=x, y=y)``."""
        for name, value in tensors.items():
            self._note("input", name, value)

    def logits(self, logits: Any) -> Any:
        """Note the logits of the next update; returns them."""
        self._note("logits", "", logits)
        return logits

    def grad_norm(self, norm: Any) -> Any:
        """Note the norm that ``clip_grad_norm_`` returned; returns it."""
        self._note("grad_norm", "", norm)
        return norm

    def gradients(self) -> None:
        """Take the gradients as they are now for those before clipping, instead of as ``backward``
        left them. Needed where something else than clipping changes them in between.

        Raises:
            PitbError: A gradient is sparse or of another type than numbers.
        """
        if self._writer is not None and self._due:
            self._taken = {}
            for name, parameter in self._first_names.items():
                if parameter.grad is not None:
                    self._taken[name] = self._gradient(name, parameter, "grad")

    def wait(self) -> None:
        """Until what was recorded so far is handed to the disk, or gathered to be."""
        if self._writer is not None:
            self._writer.wait()

    def _note(self, quantity: str, tensor: str, value: Any) -> None:
        if self._writer is not None and self._due and quantity in self._quantities:
            self._noted[(quantity, tensor)] = value.detach() if hasattr(value, "detach") else value

    # -- start and end -------------------------------------------------------------------------

    def __enter__(self) -> Self:
        """Start recording: write what the training starts from."""
        import torch

        if self._entered:
            raise PitbError(f"the recorder into {self._folder} was entered already; make another")
        self._entered = True
        if rank() > 0:
            return self
        prepare(self._folder, self._overwrite)
        self._writer = PartWriter(self._folder, self._metadata())
        for index, optimizer in enumerate(self._optimizers):
            self._hooks += [
                optimizer.register_step_pre_hook(self._before(index)),
                optimizer.register_step_post_hook(self._after(index)),
            ]
        with torch.no_grad():
            self._take_after(self._step)
            self._submit()
        self._watch()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the trace; where an exception ends the training, with its message."""
        import torch

        for hook in (*self._hooks, *self._gradient_hooks):
            hook.remove()
        writer, self._writer = self._writer, None
        if writer is None or os.getpid() != self._pid:
            return
        if error is not None:
            first = (str(error).splitlines() or [""])[0]
            writer.metadata = writer.metadata | {"error": f"{type(error).__name__}: {first}"}
            try:
                writer.end([], finished=False)
            except PitbError as second:
                error.add_note(f"pitb.record: {second}")
            return
        configuration = writer.metadata["configuration"] | {"steps": self._step}
        writer.metadata = writer.metadata | {"configuration": configuration}
        with torch.no_grad():
            if self._recorded < self._step:
                self._take_after(self._step)
            self._take_noted(self._step + 1)
        writer.end(self._ordered(), finished=True)

    # -- hooks ---------------------------------------------------------------------------------

    @property
    def _due(self) -> bool:
        """Whether the next update is recorded."""
        step = self._step + 1
        return step % self._every == 0 or step == self._start + 1

    def _watch(self) -> None:
        """See the gradients of the next update, where it is recorded."""
        for hook in self._gradient_hooks:
            hook.remove()
        self._gradient_hooks = []
        self._went_backward = False
        if not self._due:
            return
        for name, parameter in self._first_names.items():
            if parameter.requires_grad and parameter.is_leaf:
                hook = parameter.register_post_accumulate_grad_hook(self._accumulated(name))
                self._gradient_hooks.append(hook)

    def _accumulated(self, name: str) -> Callable[["torch.Tensor"], None]:
        def hook(parameter: "torch.Tensor") -> None:
            import torch

            if self._writer is None or self._evaluated or os.getpid() != self._pid:
                return
            self._went_backward = True
            if "grad" in self._quantities or "clipped_grad" in self._quantities:
                with torch.no_grad():
                    self._taken[name] = self._gradient(name, parameter, "grad", self._scale())

        return hook

    def _before(self, index: int) -> Callable[..., tuple[Any, Any] | None]:
        def hook(optimizer: Any, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
            if not self._due or self._writer is None or os.getpid() != self._pid:
                return None
            import torch

            if index in self._stepped:
                missing = next(i for i in range(len(self._optimizers)) if i not in self._stepped)
                raise PitbError(
                    f"{called(self._optimizers, index)} stepped twice before "
                    f"{called(self._optimizers, missing)} did; record optimizers together only "
                    "where each steps once an update"
                )
            with torch.no_grad():
                if not self._stepped and self._recorded < self._step:
                    self._take_after(self._step)
            # ``step`` takes a closure first, by whatever way it is given.
            closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
            if closure is None:
                self._take_given(optimizer)
                return None
            told = self._told(closure, optimizer)
            if "closure" in kwargs:
                return args, {**kwargs, "closure": told}
            return (args[0], told, *args[2:]), kwargs

        return hook

    def _told(self, closure: Callable[[], Any], optimizer: Any) -> Callable[[], Any]:
        """``closure``, whose first call is the one that is recorded: an optimizer that evaluates
        often starts its update from there.
        """

        def evaluate() -> Any:
            first = not self._evaluated
            loss = closure()
            if first:
                self._evaluated = True
                if not self._losses and loss is not None:
                    self._losses.append(_Loss(loss, True))
                self._losses, self._noticed = [], self._losses
                self._take_given(optimizer)
            else:
                self._losses = []
            return loss

        return evaluate

    def _after(self, index: int) -> Callable[..., None]:
        def hook(optimizer: Any, args: Any, kwargs: Any) -> None:
            if self._writer is None or os.getpid() != self._pid:
                return
            if self._overflowed(optimizer):
                self._forget()
                return
            self._stepped.add(index)
            if len(self._stepped) < len(self._optimizers):
                return
            due, self._step = self._due, self._step + 1
            if due:
                import torch

                if self._evaluated:
                    self._losses = self._noticed
                with torch.no_grad():
                    self._take_noted(self._step)
                    self._take_gradients(self._step)
                    self._take_after(self._step)
                    self._submit()
            self._forget()
            self._watch()

        return hook

    def _forget(self) -> None:
        """What belonged to the update that is over."""
        self._stepped.clear()
        self._losses = []
        self._noted = {}
        self._taken = {}
        self._block = {}
        self._evaluated = False

    # -- what is taken -------------------------------------------------------------------------

    def _take_given(self, optimizer: Any) -> None:
        """Gradients and rates as an optimizer is given them."""
        import torch

        self._check_losses()
        scale = getattr(optimizer, "grad_scale", None)
        step = self._step + 1
        members = {id(p) for group in optimizer.param_groups for p in group["params"]}
        with torch.no_grad():
            for name, parameter in self._first_names.items():
                if id(parameter) in members and parameter.grad is not None:
                    item = self._gradient(name, parameter, "clipped_grad", scale)
                    item.step = step
                    self._add(item)
        self._take_rates(optimizer, step)

    def _take_rates(self, optimizer: Any, step: int) -> None:
        groups = [group for item in self._optimizers for group in item.param_groups]
        first = optimizer is self._optimizers[0]
        if first:
            self._add(_number(step, "lr", "", float(groups[0]["lr"])))
        if len(groups) > 1:
            for name, parameter in self._first_names.items():
                for group in optimizer.param_groups:
                    if any(parameter is member for member in group["params"]):
                        self._add(_number(step, "lr", name, float(group["lr"])))
        if first:
            now = options_of(self._optimizers)
            for key, value in now.items():
                if value != self._options.get(key) and is_number(value):
                    # Schedulers may change more than the rate.
                    self._add(_number(step, f"option.{key}", "", float(value)))

    def _check_losses(self) -> None:
        for noted in self._losses:
            if not noted.is_late(self._went_backward):
                continue
            raise PitbError(
                "a loss was given after the optimizer.step() that it belongs to; call "
                "recorder.loss(loss) before it"
            )
        for noted in self._losses:
            if self._scaler is None and noted.is_scaled:
                raise PitbError(
                    f"gradients are scaled by {noted.flow:g}; give record() the GradScaler: "
                    "record(..., scaler=scaler)"
                )

    def _take_noted(self, step: int) -> None:
        import torch

        for (quantity, tensor), value in self._noted.items():
            copied = torch.as_tensor(value, dtype=None if torch.is_tensor(value) else torch.float64)
            self._add(self._copied(step, quantity, tensor, copied))
        if self._losses:
            values = [torch.as_tensor(noted.value).detach().reshape(()) for noted in self._losses]
            total = values[0] if len(values) == 1 else torch.stack(values).sum()
            if isinstance(self._losses[0].value, float):
                total = total.to(torch.float64)
            self._add(_number(step, "loss", "", total.item(), dtype_name(total)))

    def _take_gradients(self, step: int) -> None:
        """Those that ``backward`` gave, and those that the optimizer was given where they are
        others.
        """
        given = {item.tensor: item for item in self._block.get("clipped_grad", [])}
        for name, item in given.items():
            # One that no hook saw was set by hand.
            before = self._taken.get(name)
            if before is None:
                before = Item(step, "grad", name, item.shape, item.dtype, item.values)
            before.step = step
            self._add(before)
            if self._clipped is None and not _same(before.values, item.values):
                self._clipped = True
        if not self._clipped:
            self._block.pop("clipped_grad", None)

    def _take_after(self, step: int) -> None:
        """Parameters and states after an update."""
        for name, parameter in self._named.items():
            self._add(self._copied(step, "param", name, parameter.detach()))
        if "state" in self._quantities:
            for state, name, value in states(self._named, self._optimizers):
                self._add(self._copied(step, f"state.{state}", name, value))
        self._recorded = step

    def _gradient(
        self, name: str, parameter: "torch.Tensor", quantity: str, scale: Any = None
    ) -> Item:
        gradient = parameter.grad
        if gradient is None:
            raise PitbError(f"{name} has no gradient")
        if gradient.layout != parameter.layout:
            raise PitbError(
                f"the gradient of {name} is sparse, which a trace cannot hold; leave it out by "
                "tensors=[...], or make it dense"
            )
        item = self._copied(self._step + 1, quantity, name, gradient)
        if scale is not None:
            # As GradScaler.unscale_ does.
            factor = np.float32(1.0 / float(scale))
            item.values = (item.values * factor).astype(item.values.dtype)
        return item

    def _copied(self, step: int, quantity: str, tensor: str, value: "torch.Tensor") -> Item:
        """A copy in memory that is used again two blocks later."""
        import torch

        pool = self._pools[0]
        # A block holds two steps in a row.
        key = (step % 2, quantity, tensor, tuple(value.shape), value.dtype)
        buffer = pool.get(key)
        if buffer is None:
            buffer = torch.empty(value.shape, dtype=value.dtype)
            pool[key] = buffer
        buffer.copy_(value)
        bits = buffer.view(torch.int16) if value.dtype == torch.bfloat16 else buffer
        array = bits.numpy()
        if value.dtype == torch.bfloat16:
            array = array.view(np.uint16)
        return Item(step, quantity, tensor, tuple(value.shape), dtype_name(value), array)

    def _add(self, item: Item) -> None:
        kind = item.quantity.partition(".")[0]
        if kind in self._quantities or kind == "option":
            self._block.setdefault(item.quantity, []).append(item)

    def _ordered(self) -> list[Item]:
        """The block in the order in which it is written."""

        def place(item: Item) -> tuple[int, int, str]:
            kind = item.quantity.partition(".")[0]
            known = QUANTITIES.index(kind) if kind in QUANTITIES else len(QUANTITIES)
            return (item.step, known, item.quantity)

        items = [item for found in self._block.values() for item in found]
        return sorted(items, key=place)

    def _submit(self) -> None:
        if self._writer is not None:
            self._writer.put(self._ordered())
        self._pools.reverse()
        self._block = {}

    def _scale(self) -> Any:
        return self._scaler.get_scale() if self._scaler is not None else None

    def _overflowed(self, optimizer: Any) -> bool:
        """Whether a fused optimizer found an overflow and left the parameters as they were."""
        found = getattr(optimizer, "found_inf", None)
        return found is not None and float(found) > 0

    # -- metadata ------------------------------------------------------------------------------

    def _metadata(self) -> dict[str, Any]:
        import torch

        module = unwrapped(self._model)
        unique = {id(parameter): parameter.numel() for parameter in self._all.values()}
        first = next(iter(self._all.values()))
        return {
            "schema": trace.SCHEMA_VERSION,
            "run": f"pytorch/{self._folder.resolve().name}",
            "side": "pytorch",
            "configuration": {
                **configuration(self._optimizers, self._all),
                "every": self._every,
                **({"resume_step": self._start} if self._start else {}),
            },
            "model": {
                "name": type(module).__name__,
                "parameters": sum(unique.values()),
                "tensors": [{"name": n, "shape": list(p.shape)} for n, p in self._all.items()],
            },
            "dtype": dtype_name(first),
            "threads": torch.get_num_threads(),
            "versions": {
                "pitb": pitb.__version__,
                "torch": torch.__version__.split("+")[0],
                "python": platform.python_version(),
                "target": f"{platform.machine()}-{platform.system().lower()}",
            },
        }


class _Loss:
    """A loss that was noted, and whether ``backward`` went through it since."""

    def __init__(self, value: Any, noted_after_backward: bool) -> None:
        self.value = value.detach() if hasattr(value, "detach") else value
        self.differentiable = bool(getattr(value, "requires_grad", False))
        self.noted_after_backward = noted_after_backward
        self.flow: float | None = None
        self.hook: Any = None

    def flowed(self, gradient: "torch.Tensor") -> None:
        """Called by ``backward`` with the gradient that flows into the loss."""
        self.flow = float(gradient)

    def is_late(self, went_backward: bool) -> bool:
        """Whether the gradients of the next update are not its own."""
        watched = self.differentiable and self.hook is not None
        return watched and went_backward and not self.noted_after_backward and self.flow is None

    @property
    def is_scaled(self) -> bool:
        """Whether a GradScaler must have multiplied it."""
        if self.flow is None or not self.flow >= SCALED:
            return False
        return bool(np.frexp(self.flow)[0] == 0.5)


def _number(step: int, quantity: str, tensor: str, value: float, dtype: str = "float64") -> Item:
    return Item(step, quantity, tensor, (), dtype, np.asarray(value, dtype=np.float64))


def _same(a: Any, b: Any) -> bool:
    """Whether two arrays of one dtype have the same bits."""
    return bool(np.array_equal(a.reshape(-1).view(np.uint8), b.reshape(-1).view(np.uint8)))
