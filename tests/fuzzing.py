"""Feed changed bytes to one reader: ``python tests/fuzzing.py READER COUNT SEED FOLDER``.

Prints JSON: how many inputs were read, how many refused, and what went wrong. A process of its own,
since a reader in C++ or Rust may end it; the number of the input stands in FOLDER/at before it is
read, and its bytes in FOLDER/input. What went wrong is added to FOLDER/wrong at once, too.
"""

import argparse
import contextlib
import io
import json
import random
import shutil
import signal
import sys
import traceback
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "scripts"))

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import fuzzing_breadth
import fuzzing_sweeps
from pitb import compare, config, files, ledger, parquet, parts, trace
from pitb.errors import PitbError

ROOT = Path(__file__).parent.parent
SECONDS = 20
"""After which one input is a hang."""


class WrongOK(Exception):
    """A reader has believed what is not so."""


def made(run="pytorch/x", param=(1.0, -2.5, 3e-5, 4e8)):
    recorder = trace.Recorder()
    recorder.add(0, "input", [0.25, 0.5], "float32", "x")
    recorder.add(0, "param", np.ones(len(param)), "float32", "w")
    for step in (1, 2, 3):
        recorder.add(step, "loss", 0.5 / step, "float32")
        recorder.add(step, "param", np.array(param) * step, "float32", "w")
    return recorder.trace({"schema": trace.SCHEMA_VERSION, "run": run, "configuration": {}})


def bytes_of(write, folder, name="seed"):
    path = folder / name
    write(path)
    return path.read_bytes()


def hold_against(original, found, path, begin=0):
    """No OK where the file, read by pyarrow at once, holds another value than the original.

    The file holds the original's entries from ``begin`` on.
    """
    wanted = ("loss", "param")
    try:
        verdict = compare.compare(original, found, 0.0, wanted).verdict
    except PitbError:
        return
    if verdict != compare.OK:
        return
    try:
        table = pq.ParquetFile(path).read()
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        return  # pyarrow reads no such file, so it cannot say
    # Where a byte made the type of a text another, pyarrow gives its bytes.
    quantities = [
        q if isinstance(q, str) else q.decode(errors="replace")
        for q in table["quantity"].to_pylist()
    ]
    names = [*zip(table["step"].to_pylist(), quantities, strict=True)]
    values = [v for v, (s, q) in zip(table["value"].to_pylist(), names, strict=True)
              if s > 0 and q in wanted]  # fmt: skip
    mine = [v for e in original.entries[begin:] if e.step > 0 for v in original.of(e).tolist()]
    if values != mine:
        raise WrongOK(f"OK, but the file holds {values}")


def read_trace(path):
    hold_against(made(), trace.read(path), path)


def read_trace_arro3(path):
    hold_against(made(), parquet.read_trace(path), path)


def read_comparison(path):
    found = compare.read(path)
    compare.report(found)
    bad = any(not row.max_abs <= row.tolerance for row in found.rows)
    if bad and found.verdict == compare.OK:
        raise WrongOK("OK, but a row is not")


def read_parts(path):
    folder = path.parent / "parts"
    (folder / "part-000001.parquet").write_bytes(path.read_bytes())
    hold_against(made(), parts.read(folder), folder / "part-000001.parquet", 4)


def read_config(path):
    config.load([path], ROOT / "config/schema.json")


def read_pages_json(path):
    compare.compare_files(path, path, 1e-6)


def read_bundle(path):
    from pitb.bundle import unpacking

    out = path.parent / "out"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    with unpacking.opened(path) as archive:
        archive.unpack(out)


def read_text(path):
    return files.read_text(path)


def read_rust(path):
    from pitb.lint import sources

    sources.read(read_text(path), "x.rs")


def quietly(command, *words):
    """A command of ``pitb``, without what it prints."""
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    with contextlib.redirect_stdout(io.StringIO()):
        command.run(parser.parse_args(list(words)))


def read_python(path):
    from pitb.cli import port

    quietly(port, str(path))


def read_run(path):
    from pitb.explain import sources

    sources.read(str(path)).configured({})


def read_line(path):
    from pitb.explain import sources

    sources.read(read_text(path)).configured({})


def read_in_place(path):
    """As a large trace is read."""
    from unittest import mock

    from pitb.stream import opening

    with mock.patch.multiple(opening, HELD=0, DECODED=0):
        found = opening.open_trace(path)
    hold_against(made(), found, path)


def read_compiled(path):
    """Whatever compiled code says of it is what Python says."""
    good = path.parent / "good"
    if not good.exists():
        trace.write(made("burn/x"), good)
    pairs = (good, path), (path, good), (path, path)
    answers = {pair: found for pair in pairs if (found := by_compiled_code(*pair)) is not None}
    if not answers:
        raise PitbError("all is left to Python")
    for pair, found in answers.items():
        try:
            wanted = compare.compare(*map(compare.load, pair), 0.0, found.quantities)
        except PitbError as error:
            raise WrongOK(f"compiled code says {found.verdict}, and Python: {error}") from None
        if repr(found) != repr(wanted):
            raise WrongOK(f"compiled code says {found}, and Python {wanted}")


def by_compiled_code(a, b, tolerance=0.0, quantities=None):
    """What compiled code alone says of two files; None where it leaves them to Python."""
    from unittest import mock

    def refuse(path):
        raise LookupError(path)

    with mock.patch.object(compare, "load", refuse), contextlib.suppress(LookupError):
        return compare.compare_files(a, b, tolerance, quantities)
    return None


def read_specs(path):
    from pitb import by_hand

    by_hand.read_specs(path)


def read_reverse(path):
    from pitb.port import reverse

    reverse.reverse(read_text(path), "x")


def read_marks(path):
    from pitb.docs import document, grammar

    grammar.marks(document.read(path))


def read_registry(path):
    from pitb.errors import PitbError
    from pitb.watch import versions

    text = path.read_bytes().decode("utf-8", "replace")
    for call in (versions.burn_versions, versions.torch_versions):
        with contextlib.suppress(PitbError):
            call(lambda _: (0, text))


RUST = """use burn::optim::{AdamConfig, AdamWConfig};
fn main() { let a = AdamWConfig::new().with_weight_decay(0.1).init(); let b = AdamConfig::new(); }
"""
PYTHON = """import torch
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.99), weight_decay=0.1)
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30)
"""
DEBUG = """AdamConfig { beta_1: 0.9, beta_2: 0.999, epsilon: 1e-5, amsgrad: false,
weight_decay: None, grad_clipping: None }"""
LINE = "pytorch:AdamW lr=0.01 weight_decay=0.1 betas=[0.9,0.99] clip.scope=value clip.clip_value=1"
RUN = """id: pytorch/x
optimizer: AdamW
options: {weight_decay: 0.1, betas: [0.9, 0.99]}
lr: 0.01
steps: 3
clip:
  scope: global
  max_norm: 0.1
"""
SPECS = b"""{"runs": [{"id": "burn/x", "optimizer": "Sgd",
"options": {"momentum": {"momentum": 0.9}}, "lr": 0.1, "steps": 10,
"sources": {"options": "config.yaml, line 1"}}]}"""
MARKS = """# x

<!-- pitb:ledger -->
```
old
```
<!-- /pitb -->

| a | <!-- pitb:x/y row=a -->1<!-- /pitb --> |
"""


def zipped(folder):
    import zipfile

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(4):
            archive.writestr(f"d/f{number}.txt", bytes(range(200)))
    return buffer.getvalue()


def a_comparison(folder):
    found = compare.compare(made(), made("burn/x", (1.0, -2.5, 4e-5, 4e8)), 1e-6, ["loss", "param"])
    return bytes_of(lambda path: compare.write(found, path), folder)


def a_trace(folder):
    return bytes_of(lambda path: trace.write(made(), path), folder)


def second_part(folder):
    parts.write(made(), folder / "parts", [4])
    return (folder / "parts/part-000001.parquet").read_bytes()


READERS = {
    "trace": (read_trace, a_trace),
    "trace-arro3": (read_trace_arro3, a_trace),
    "parts": (read_parts, second_part),
    "comparison": (read_comparison, a_comparison),
    "config": (read_config, lambda _: (ROOT / "config/config.yaml").read_bytes()),
    "published": (
        ledger.read_published,
        lambda _: (ROOT / "config/published/one-step.csv").read_bytes()[:3000].rpartition(b"\n")[0],
    ),
    "json": (read_pages_json, lambda _: b'{"loss": 1.0, "w": [[1.0, 2.0], [3.0, "nan"]], "a": {}}'),
    "bundle": (read_bundle, zipped),
    "rust": (read_rust, lambda _: RUST.encode()),
    "python": (read_python, lambda _: PYTHON.encode()),
    "in-place": (read_in_place, a_trace),
    "compiled": (read_compiled, a_trace),
    "run": (read_run, lambda _: RUN.encode()),
    "line": (read_line, lambda _: LINE.encode()),
    "specs": (read_specs, lambda _: SPECS),
    "reverse": (read_reverse, lambda _: DEBUG.encode()),
    "marks": (read_marks, lambda _: MARKS.encode()),
    "registry": (read_registry, lambda _: b'{"versions": ["0.22.1"], "latest": "2.15.0"}'),
    **fuzzing_sweeps.READERS,
    **fuzzing_breadth.READERS,
}
SUFFIXES = {
    "json": ".json",
    "config": ".yaml",
    "run": ".yaml",
    "specs": ".json",
    "published": ".csv",
    "marks": ".md",
}
SUFFIXES |= {"python": ".py", "rust": ".rs", "bundle": ".zip"}
SUFFIXES |= {**fuzzing_sweeps.SUFFIXES, **fuzzing_breadth.SUFFIXES}
TOKENS = (b"\0", b"\xff\xff\xff\xff", b"nan", b"-1", b"1e999", b"\n", b"'", b'"', b"\xc3")
TOKENS += (b"[" * 500,)


def changed(data, chance):
    """The bytes after a few changes: bits, bytes, parts cut out, put twice, or strange words."""
    found = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        at = chance.randrange(len(found) or 1)
        match chance.randrange(6):
            case 0 | 1 if found:
                found[at] ^= 1 << chance.randrange(8)
            case 2 if found:
                found[at] = chance.randrange(256)
            case 3:
                del found[at : at + chance.choice((1, 4, 50))]
            case 4:
                found[at:at] = found[at : at + chance.choice((1, 8, 100))]
            case _:
                found[at:at] = chance.choice(TOKENS)
    return bytes(found)


def fuzz(reader, count, seed, folder, begin=0):
    read, original = READERS[reader]
    whole = original(folder)
    path = folder / f"input{SUFFIXES.get(reader, '.parquet')}"
    outcome = {"read": 0, "refused": 0, "wrong": []}

    def wrong(text):
        outcome["wrong"].append(text)
        with (folder / "wrong").open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")

    def late(*_):
        raise TimeoutError("a hang")

    warnings.simplefilter("error", RuntimeWarning)  # no sentence, though it is printed
    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, late)
    for number in range(begin, count):
        data = changed(whole, random.Random(f"{seed} {reader} {number}"))
        path.write_bytes(data)
        (folder / "at").write_text(str(number))
        if hasattr(signal, "SIGALRM"):
            signal.alarm(SECONDS)
        try:
            read(path)
            outcome["read"] += 1
        except PitbError as error:
            outcome["refused"] += 1
            if len(str(error).splitlines()) != 1:
                wrong(f"{number}: not one line: {error}")
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            said = f"{number}: {type(error).__name__}: {error}"[:300]
            wrong(f"{said} ({Path(last.filename).name}, line {last.lineno})")
    if hasattr(signal, "SIGALRM"):
        signal.alarm(0)
    return outcome


def main():
    name, many, start, place = sys.argv[1:5]
    begins = int(sys.argv[5]) if len(sys.argv) > 5 else 0
    pa.set_cpu_count(1)
    print(json.dumps(fuzz(name, int(many), start, Path(place), begins)))


if __name__ == "__main__":
    main()
