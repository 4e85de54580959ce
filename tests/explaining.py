"""What the tests of explanations share: configurations, and traces made of the reference."""

from dataclasses import replace

from pitb import trace
from pitb.explain import explanation, sources
from pitb.explain.items import lay_out
from pitb.problems import added, problem
from pitb.reference.training import train


def configured(text, **overrides):
    return sources.read(text).configured(overrides)


def layout(a, b, **overrides):
    sides = [configured(text, **overrides) for text in (a, b)]
    return lay_out(*sides, (sides[0].problem, sides[1].problem))


def explained(a, b, overrides=None, **options):
    both = [sources.read(item) if isinstance(item, str) else item for item in (a, b)]
    return explanation.explain(*both, overrides, **options)


def names(found):
    return [item.name for item in found.items]


def recorded(text, run, own="", states=True, change=None, metadata=None, **overrides):
    """The trace that a library would leave which does as its description says.

    Args:
        text: The run in a line.
        run: The trace's id.
        own: The name of a model that pitb does not know, where it is to be of one.
        states: Whether states are recorded.
        change: What is done to the reference's run before it is trained.
        metadata: What else its metadata says.
        overrides: As on the command line.
    """
    source = sources.read(text)
    side = source.configured(overrides)
    found = lay_out(side, side, (side.problem, side.problem)).run(())
    found = replace(found, states=states)
    made = train(change(found) if change is not None else found)
    spec = {key: value for key, value in {**source.spec, **overrides}.items() if key != "side"}
    spec |= {"lr": side.member.lr, "steps": side.steps}
    said = {
        "schema": trace.SCHEMA_VERSION,
        "run": run,
        "side": side.side,
        "configuration": spec,
        "dtype": side.dtype,
        "model": {"name": own or side.problem},
    }
    if own:
        spec["problem"] = own
    return trace.Trace(made.entries, made.values, said | (metadata or {}))


def source_of(*arguments, **options):
    return sources.of_trace(recorded(*arguments, **options))


def moved(name, by, tensor=None):
    """A problem that starts elsewhere."""
    found = problem(name)
    parameters = {
        key: value + by if tensor in (None, key) else value
        for key, value in found.parameters.items()
    }
    return replace(found, name=f"{name}, moved", parameters=parameters)


__all__ = ["added", "configured", "explained", "layout", "moved", "names", "recorded", "source_of"]
