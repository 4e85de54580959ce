import json
import subprocess
import sys

import pytest

from pitb import libraries
from pitb.cli import COMMANDS, parser
from pitb.registry import optimizers


@pytest.mark.torch
def test_the_recorded_calls_and_defaults_are_those_of_the_installed_libraries(root, tmp_path):
    out = tmp_path / "libraries.json"
    burn = root / "results/evidence/defaults/burn.json"
    command = [sys.executable, "scripts/record_libraries.py", "--burn", burn]
    subprocess.run([*command, "--lock", "Cargo.lock", "--out", out], cwd=root, check=True)
    assert json.loads(out.read_text()) == libraries.recorded()


def test_every_optimizer_is_recorded_on_both_sides():
    for item in optimizers():
        names = [
            entry["name"] for entry in libraries.recorded()["pytorch"][item.pytorch]["parameters"]
        ]
        assert names[:2] == ["params", "lr"]
        assert libraries.burn_fields(item.burn_config)


def test_every_command_has_help_with_examples():
    actions = parser()._subparsers._group_actions[0]
    assert tuple(actions.choices) == COMMANDS
    for name, command in actions.choices.items():
        assert f"pitb {name}" in command.format_help().partition("examples:")[2]


def test_help_imports_nothing_heavy(root):
    heavy = "{'torch', 'numpy', 'pyarrow', 'matplotlib', 'snakemake', 'tree_sitter'}"
    code = f"import sys; from pitb.cli import parser; parser(); print({heavy} & set(sys.modules))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "set()"
