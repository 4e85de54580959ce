import json
import subprocess
import sys
import time

import pytest

from pitb import cli, declared, libraries
from pitb.errors import PitbError
from pitb.lint import rules, sources
from pitb.registry import optimizers

USE = "use burn::optim::{AdamConfig, SgdConfig, MuonConfig, momentum::MomentumConfig};\n"
EPSILON = [("AdamConfig", "epsilon")]


def found(text, use=USE):
    return list(rules.check(sources.read(use + text, "a.rs")))


def pairs(text, use=USE):
    return [(item.configuration, item.field) for item in found(text, use)]


def body(text):
    return f"fn f(c: bool) {{ {text}\n}}\n"


CASES = {
    "new": (body("AdamConfig::new().init();"), EPSILON),
    "stated": (body("AdamConfig::new().with_epsilon(1e-8).init();"), []),
    "stated last": (body("AdamConfig::new().with_beta_1(0.8).with_epsilon(1e-8).init();"), []),
    "another is stated": (body("AdamConfig::new().with_beta_1(0.8).init();"), EPSILON),
    "a line comment": ("// AdamConfig::new()\n", []),
    "a block comment": ("/* AdamConfig::new() /* nested */ */\n", []),
    "a doc comment": ("/// AdamConfig::new()\nfn f() {}\n", []),
    "a string": (body('let s = "AdamConfig::new()";'), []),
    "a raw string": (body('let s = r#"AdamConfig::new()"#;'), []),
    "a full path": (body("burn::optim::AdamWConfig::new();"), [("AdamWConfig", x) for x in
                    ("epsilon", "weight_decay")]),
    "a path of the crate": (body("burn_optim::AdamConfig::new();"), EPSILON),
    "let and then": (body("let c = AdamConfig::new(); let c = c.with_epsilon(1e-8);"), []),
    "let mut": (body("let mut c = AdamConfig::new(); c = c.with_epsilon(1e-8);"), []),
    "let another": (body("let a = AdamConfig::new(); let b = a.with_epsilon(1e-8); b.init();"), []),
    "let unstated": (body("let a = AdamConfig::new(); let b = a.with_beta_1(0.8);"), EPSILON),
    "in a branch": (
        body("let mut a = AdamConfig::new(); if c { a = a.with_epsilon(1e-8); }"), []
    ),
    "a clone": (body("let a = AdamConfig::new(); a.clone().with_epsilon(1e-8).init();"), []),
    "shadowed": (
        body("let a = AdamConfig::new(); a.init(); let a = 1; a.with_epsilon(1e-8);"), EPSILON
    ),
    "by a function": (
        "fn base() -> AdamConfig { AdamConfig::new() }\n"
        "fn g() { base().with_epsilon(1e-8).init(); }\n",
        [],
    ),
    "a macro": (body("vec![AdamConfig::new().init()];"), EPSILON),
    "a macro, stated": (body("vec![AdamConfig::new().with_epsilon(1e-8).init()];"), []),
    "a macro in a macro": (body("vec![vec![(AdamConfig::new(), 1)]];"), EPSILON),
    "a macro's definition": (
        "macro_rules! adam { () => { AdamConfig::new().init() }; }\n", EPSILON
    ),
    "a part": (
        body("SgdConfig::new().with_momentum(Some(MomentumConfig::new()));"),
        [("MomentumConfig", "dampening")],
    ),
    "a part, stated": (
        body("SgdConfig::new().with_momentum(Some(MomentumConfig::new().with_dampening(0.0)));"), []
    ),
    "a part in a macro": (
        body("vec![SgdConfig::new().with_momentum(Some(MomentumConfig::new()))];"),
        [("MomentumConfig", "dampening")],
    ),
    "a part of another": (
        body("MuonConfig::new().with_weight_decay(None).with_momentum(MomentumConfig::new());"),
        [("MomentumConfig", name) for name in ("momentum", "dampening", "nesterov")],
    ),
    "a literal": (
        body("MomentumConfig { momentum: 0.9, dampening: 0.0, nesterov: false };"), []
    ),
    "an update": (
        body("MomentumConfig { momentum: 0.9, ..MomentumConfig::new() };"),
        [("MomentumConfig", "dampening")],
    ),
    "an update, stated": (
        body("MomentumConfig { dampening: 0.0, ..MomentumConfig::new() };"), []
    ),
    "an update of a stated one": (
        body("MomentumConfig { nesterov: true, ..MomentumConfig::new().with_dampening(0.0) };"), []
    ),
    "a field that is set": (
        body("let mut m = MomentumConfig::new(); m.dampening = 0.0;"), []
    ),
    "test code": ("#[cfg(test)]\nmod t { fn f() { super::AdamConfig::new(); } }\n", EPSILON),
    "comments in between": (
        body("AdamConfig::new() // why\n.with_epsilon(/* PyTorch's */ 1e-8)\n.init();"), []
    ),
    "allowed": (body("AdamConfig::new().init(); // pitb: allow(epsilon)"), []),
    "allowed above": (body("\n// pitb: allow\nAdamConfig::new().init();"), []),
    "allowed within": (body("AdamConfig::new()\n// pitb: allow(epsilon)\n.with_beta_1(0.8);"), []),
    "another allowed": (body("AdamConfig::new().init(); // pitb: allow(beta_1)\n"), EPSILON),
    "allowed in the file": ("// pitb: allow-file(epsilon)\n" + body("AdamConfig::new();"), []),
    "allowed elsewhere": (body("\n// pitb: allow\n\n\nAdamConfig::new();"), EPSILON),
    "allowed in a string": (body('AdamConfig::new().f("// pitb: allow");'), EPSILON),
    "a type alias": ("type A = AdamConfig;\n" + body("A::new();"), EPSILON),
    "a parenthesis": (body("(AdamConfig::new()).with_epsilon(1e-8);"), []),
    "a reference": (body("f(&AdamConfig::new());"), EPSILON),
    "an argument": (body("TrainingConfig::new(AdamConfig::new()).with_epsilon(1e-8);"), EPSILON),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_left_unstated(name):
    text, expected = CASES[name]
    assert pairs(text) == expected


@pytest.mark.parametrize(
    ("use", "name", "hit"),
    [
        ("use burn::optim::AdamConfig as A;", "A", True),
        ("use burn::optim::{self, AdamConfig};", "optim::AdamConfig", True),
        ("use burn::optim as o;", "o::AdamConfig", True),
        ("use burn as b;", "b::optim::AdamConfig", True),
        ("use burn::optim::*;", "AdamConfig", True),
        ("use burn::{optim::{AdamConfig as X, SgdConfig}, module::Module};", "X", True),
        ("use candle::AdamConfig;", "AdamConfig", False),
        ("struct AdamConfig;", "AdamConfig", False),
        ("use other::optim;", "optim::AdamConfig", False),
        ("", "candle::optim::AdamConfig", False),
        ("", "<burn::optim::AdamConfig>", True),
    ],
)
def test_names(use, name, hit):
    text = f"{use}\nfn f() {{ {name}::new(); }}"
    assert pairs(text, "") == (EPSILON if hit else [])


def test_a_finding_says_both_values_and_what_to_add():
    (item,) = found("fn f() {\n    AdamConfig::new();\n}")
    assert (item.file, item.line, item.column) == ("a.rs", 3, 5)
    assert (item.burn, item.pytorch, item.add) == ("1e-5", "1e-08", "with_epsilon(1e-8)")
    for part in ("1e-5", "1e-08", ".with_epsilon(1e-8)", "AdamConfig"):
        assert part in item.message


def test_clipping_by_norm_is_another_norm():
    use = "use burn::grad_clipping::GradientClippingConfig as G;\n"
    assert pairs("fn f() { G::Norm(1.0); }", use) == [("GradientClippingConfig::Norm", "clip")]
    assert pairs("fn f() { G::Value(1.0); }", use) == []
    assert pairs("fn f() { G::Norm(1.0); // pitb: allow(clip)\n}", use) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [("fn f( {\n}", 1), ("fn f() {\n    let x = ;\n}", 2), ("fn f() {\n\n    g(1;\n}", 3)],
)
def test_what_cannot_be_parsed_is_said_with_its_line(text, line):
    with pytest.raises(PitbError, match=rf"a\.rs, line {line}: this is not Rust"):
        sources.read(text, "a.rs")


def test_what_stands_around_it_is_looked_at(tmp_path, capsys):
    # Valid Rust that the parser does not know.
    text = "fn g() {\n    m!(~);\n"
    text += "    match x { A { #[cfg(f)] b: C { d: E::F, .. }, .. } | G => {} }\n}\n"
    (tmp_path / "a.rs").write_text(USE + text + "fn f() { AdamConfig::new(); }\nfn h( {\n")
    code, output, errors = lint(capsys, tmp_path / "a.rs")
    assert code == 2
    assert "a.rs:6:10: AdamConfig leaves epsilon" in output
    assert "this is not Rust that can be parsed" in errors
    assert errors.count("\n") == 1


def test_an_unknown_name_in_a_comment():
    with pytest.raises(PitbError, match=r"line 2.*'epsilom'.*nearest: 'epsilon'"):
        found("fn f() { AdamConfig::new(); // pitb: allow(epsilom)\n}")


def test_deep_nesting():
    text = "fn f() { " + "(" * 3000 + "AdamConfig::new()" + ")" * 3000 + "; }"
    assert pairs(text) == EPSILON


def test_a_large_file_takes_little_time():
    lines = "".join(f"    let x{i} = f(x{i}.y(), &[{i}]);\n" for i in range(20000))
    start = time.process_time()
    assert pairs(f"fn f() {{\n{lines}    AdamConfig::new();\n}}") == EPSILON
    assert time.process_time() - start < 15


def test_text_that_is_not_ascii():
    (item,) = found('fn f() { let ü = "ß"; AdamConfig::new(); }')
    assert item.line == 2


def test_there_is_a_rule_for_each_default_that_differs():
    # Independently of what makes the rules: from the two records of defaults.
    expected = set()
    for entry in optimizers():
        fields = libraries.burn_fields(entry.burn_config)
        standard = libraries.pytorch_defaults(entry.pytorch)
        for item in entry.hyperparameters:
            if "." in item.burn or item.values or item.burn == "max_eval":
                continue
            ours, theirs = item.of(standard), fields[item.burn]
            if ours != theirs and not (ours in (0, None) and theirs == 0):
                expected.add((entry.burn_config, item.burn))
    made = {(kind, rule.field) for kind, those in rules.rules().items() for rule in those}
    assert expected <= made
    assert made - expected == {("MomentumConfig", "dampening"), ("MuonConfig", "weight_decay")}


def test_every_rule_adds_a_method_that_there_is():
    for kind, those in rules.rules().items():
        for rule in those:
            entry = declared.field(kind, rule.field)
            assert entry is not None
            assert not entry.required
            assert rule.add.startswith(f"with_{rule.field}(")


@pytest.mark.parametrize("kind", [entry.burn_config for entry in optimizers()])
def test_adding_what_is_said_silences_it(kind):
    use = f"use burn::optim::{kind};\n"
    made = found(f"fn f() {{ {kind}::new(); }}", use)
    chain = "".join(f".{item.add}" for item in made)
    assert found(f"fn f() {{ {kind}::new(){chain}; }}", use) == []


# The command


def run(*arguments):
    command = [sys.executable, "-m", "pitb", "lint", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.rs").write_text(USE + "fn f() { AdamConfig::new(); }\n")
    (tmp_path / "src/b.rs").write_text(USE + "#[test]\nfn f() { AdamConfig::new(); }\n")
    (tmp_path / "target").mkdir()
    (tmp_path / "target/c.rs").write_text("fn f() { burn::optim::AdamConfig::new(); }\n")
    return tmp_path


def lint(capsys, *arguments):
    parsed = cli.parser().parse_args(["lint", *map(str, arguments)])
    code = parsed.run(parsed)
    return code, *capsys.readouterr()


def test_a_folder(folder, capsys):
    code, output, _ = lint(capsys, folder)
    assert code == 1
    assert output.count("AdamConfig leaves epsilon") == 2
    assert "(test code)" in output
    assert output.splitlines()[-1] == "2 files, 2 findings"
    assert lint(capsys, folder, "--skip-tests")[1].splitlines()[-1] == "2 files, 1 finding"


def test_json(folder, capsys):
    code, output, _ = lint(capsys, folder, "--json")
    said = json.loads(output)
    assert (code, said["files"], said["errors"]) == (1, 2, [])
    item = said["findings"][0]
    assert (item["line"], item["field"], item["add"]) == (2, "epsilon", "with_epsilon(1e-8)")


def test_annotations(folder, capsys):
    _, output, _ = lint(capsys, folder / "src/a.rs", "--github")
    start = f"::warning file={folder}/src/a.rs,line=2,col=10,title=AdamConfig epsilon::"
    assert output.startswith(start)
    assert len(output.splitlines()) == 1


def test_annotations_are_escaped():
    (item,) = found("fn f() { AdamConfig::new(); }")
    odd = rules.Finding(**{**item.__dict__, "file": "a,b:c.rs", "message": "50%\nmore"})
    from pitb.cli.lint import annotation

    assert "file=a%2Cb%3Ac.rs" in annotation(odd)
    assert annotation(odd).endswith("::50%25%0Amore")


def test_an_error_does_not_hide_the_others(folder, capsys):
    (folder / "src/broken.rs").write_text("fn f( {")
    (folder / "src/bytes.rs").write_bytes(b"fn f() { \xff }")
    code, output, errors = lint(capsys, folder)
    assert code == 2
    assert "4 files, 2 findings" in output
    assert "broken.rs, line 1" in errors
    assert "bytes.rs is not UTF-8 text (byte 9)" in errors


def test_nothing_to_find(tmp_path, capsys):
    (tmp_path / "a.rs").write_text("fn f() {}\n")
    assert lint(capsys, tmp_path)[:2] == (0, "1 file, 0 findings\n")


def test_what_is_not_there(tmp_path):
    ended = run(tmp_path / "no.rs")
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert "does not exist" in ended.stderr
    ended = run(tmp_path)
    assert (ended.returncode, "there is no Rust file" in ended.stderr) == (2, True)


def test_it_needs_neither_torch_nor_snakemake():
    code = (
        "import sys; sys.path.insert(0, 'scripts')\n"
        "from pitb.lint import rules, sources\n"
        "list(rules.check(sources.read('fn f() { burn::optim::AdamConfig::new(); }', 'a')))\n"
        "print([m for m in ('torch', 'snakemake', 'matplotlib') if m in sys.modules])\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"
