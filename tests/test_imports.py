from pitb import imports


def names(root, script):
    folder = root / "scripts"
    found = imports.dependencies(folder / script)
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


def command(root):
    """What the pitb command needs, whose modules are imported by their names."""
    folder = root / "scripts"
    found, waiting = set(), [folder / "pitb/__main__.py", *folder.glob("pitb/cli/*.py")]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += imports._mentioned(path, folder) if path.suffix == ".py" else []
    return {path.relative_to(folder).as_posix() for path in found}


def test_every_module_is_needed_by_some_script(root):
    scripts = [path.name for path in (root / "scripts").glob("*.py")]
    needed = set().union(*(names(root, script) for script in scripts))
    needed |= command(root)
    modules = {
        path.relative_to(root / "scripts").as_posix() for path in root.glob("scripts/pitb/**/*.py")
    }
    assert modules - needed == {"pitb/imports.py"}  # the Snakefile's own


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
