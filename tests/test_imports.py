import subprocess
import sys

from pitb import imports
from pitb.cli import COMMANDS


def names(root, script):
    folder = root / "scripts"
    found = imports.dependencies(folder / script, folder)
    return {path.relative_to(folder).as_posix() for path in found}


def test_what_a_result_depends_on_is_found(root):
    found = names(root, "make_tables.py")
    assert {"make_tables.py", "pitb/__init__.py", "pitb/labels.py", "pitb/compare.py"} <= found
    assert {"pitb/pages/__init__.py", "pitb/pages/one_step.py"} <= found
    # The list of names is data that the registry reads.
    assert {"pitb/registry.py", "pitb/optimizers.json"} <= found


def test_what_it_does_not_depend_on_is_left_out(root):
    assert "pitb/ledger.py" not in names(root, "make_tables.py")
    assert "pitb/pytorch.py" not in names(root, "compare_traces.py")
    assert "pitb/labels.py" not in names(root, "train_pytorch.py")


def test_every_module_is_needed_by_some_script_or_command(root):
    folder = root / "scripts"
    scripts = [path.name for path in folder.glob("*.py")]
    # Commands are found by their names.
    scripts += [path.relative_to(folder).as_posix() for path in folder.glob("pitb/cli/*.py")]
    scripts += ["pitb/__main__.py", "pitb/record.py"]  # and what users import
    scripts += ["pitb/bundle/worker.py"]  # a process that is started by its module's name
    needed = set().union(*(names(root, script) for script in scripts))
    modules = {
        path.relative_to(root / "scripts").as_posix() for path in root.glob("scripts/pitb/**/*.py")
    }
    assert modules - needed == {"pitb/imports.py", "pitb/running.py"}  # the Snakefile's own
    assert {f"pitb/cli/{name}.py" for name in COMMANDS} <= modules


def test_a_new_import_is_a_new_dependency(tmp_path):
    package = tmp_path / "pitb"
    package.mkdir()
    for name, text in {"__init__": "", "a": "from pitb.b import x", "b": "x = 'data.csv'"}.items():
        (package / f"{name}.py").write_text(text)
    (package / "data.csv").write_text("")
    (tmp_path / "s.py").write_text("from pitb import a\n")
    found = {path.name for path in imports.dependencies(tmp_path / "s.py")}
    assert found == {"s.py", "__init__.py", "a.py", "b.py"}
    imports._mentioned.cache_clear()
    (package / "b.py").write_text('x = "data.csv"')
    found = {path.name for path in imports.dependencies(tmp_path / "s.py")}
    assert "data.csv" in found


def test_no_script_pays_for_pandas_which_pyarrow_would_import(root):
    text = """
import importlib.util, sys
from pitb.errors import run_main

def main():
    import pyarrow as pa
    assert pa.array([1, 2]).to_pylist() == [1, 2]
    assert importlib.util.find_spec("pandas") is not None  # whoever asks is not stopped
    print("pandas" in sys.modules)

run_main(main)
"""
    command = [sys.executable, "-c", text]
    ended = subprocess.run(command, cwd=root / "scripts", capture_output=True, text=True)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("False\n", "", 0)
    # The control: without run_main it is imported, so this test can fail.
    plain = "import sys, pyarrow as pa; pa.array([1, 2]); print('pandas' in sys.modules)"
    command = [sys.executable, "-c", plain]
    assert subprocess.run(command, capture_output=True, text=True).stdout == "True\n"
