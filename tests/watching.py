"""What the tests of `pitb watch` have in common: a cargo and a registry that build nothing."""

import json
import shlex
import shutil
import sys
from pathlib import Path

from conftest import ROOT
from pitb import libraries
from pitb.cargo import PROGRAMS
from pitb.watch import workspace

FEATURES = ("autodiff", "flex", "optim", "std")

CARGO = r"""import json, os, shutil, sys
from pathlib import Path

plan = json.loads(Path({plan!r}).read_text())
arguments = sys.argv[1:]
with open({log!r}, "a") as log:
    log.write(" ".join(arguments) + "\n")
if arguments[0] == "info":
    spec = arguments[-1]
    name, _, version = spec.partition("@")
    if plan.get("offline"):
        sys.exit("error: failed to fetch: network unreachable")
    if spec not in plan["crates"]:
        sys.exit(f"error: could not find `{{spec}}` in registry")
    print(f"version: {{version}}\nfeatures:")
    for feature in plan["crates"][spec]:
        print(f"  {{feature}} = []")
    sys.exit(0)
if "--locked" in arguments:
    # A question to the compiler: the project's own workspace, which is built, answers it.
    words = [a for a in arguments if not a.startswith("--target-dir=")]
    words.append("--target-dir=" + plan["target"])
    os.chdir(plan["root"])
    os.execv(plan["cargo"], ["cargo", *words])
if plan["broken"]:
    for message in plan["messages"]:
        print(json.dumps(message))
    sys.exit(plan["broken"])
target = Path(arguments[arguments.index("--target-dir") + 1]) / "release"
target.mkdir(parents=True, exist_ok=True)
for message in plan["messages"]:
    print(json.dumps(message))
names = [a.partition("=")[2] for a in arguments if a.startswith("--bin=")]
lost = False
for name in names:
    source = plan["programs"].get(name)
    if source is None:
        lost = True
        if name.startswith("config-") or name.endswith(("-device", "-backend")):
            # A program of ours that fails without a word is none that does not compile.
            span = {{"file_name": f"crates/probes/src/bin/{{name}}.rs", "line_start": 4}}
            said = {{"level": "error", "message": f"unresolved import of {{name}}"}}
            said |= {{"code": {{"code": "E0432"}}, "spans": [span | {{"is_primary": True}}]}}
            target_ = {{"name": name, "kind": ["bin"]}}
            said = {{"reason": "compiler-message", "target": target_, "message": said}}
            print(json.dumps(said))
        continue
    shutil.copy(source, target / name)
    made = {{"name": name, "kind": ["bin"]}}
    print(json.dumps({{"reason": "compiler-artifact", "target": made}}))
sys.exit(101 if lost else 0)
"""


def fake_cargo(folder, crates, programs, messages=(), offline=False, broken=""):
    """A cargo in ``folder`` that knows these crates, and 'builds' by copying.

    With ``broken`` its builds end with this sentence, and make nothing.
    Gives the file in which it notes each call.
    """
    folder.mkdir(parents=True, exist_ok=True)
    plan, log = folder / "plan.json", folder / "calls.log"
    plan.write_text(
        json.dumps(
            {
                "crates": {spec: list(features) for spec, features in crates.items()},
                "programs": {name: str(path) for name, path in programs.items()},
                "messages": list(messages),
                "offline": offline,
                "broken": broken,
                "cargo": shutil.which("cargo"),
                "root": str(ROOT),
                "target": str(ROOT / "target"),
            }
        )
    )
    log.touch()
    executable(folder / "cargo", CARGO.format(plan=str(plan), log=str(log)))
    return log


def executable(path, code):
    """A program at ``path`` that runs this Python code; a shebang would end at a space."""
    script = path.with_name(f"{path.name}.py")
    script.write_text(code)
    words = shlex.join([sys.executable, str(script)])
    path.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    path.chmod(0o755)


def config_programs(folder, changed=None):
    """Programs that print the recorded defaults, some of them ``changed``; by name."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for probe in workspace.config_probes():
        entry = libraries.recorded()["burn"][probe.config]
        fields = {**entry["fields"], **(changed or {}).get(probe.config, {})}
        text = json.dumps({"debug": entry["debug"], "fields": fields})
        path = folder / workspace.config_program(probe.config)
        executable(path, f"print({text!r})\n")
        found[path.name] = path
    return found


def project_programs(root: Path):
    """The project's own programs as they are built, by name."""
    return {name: root / "target" / "release" / name for name in PROGRAMS}
