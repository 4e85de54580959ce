"""The site of the pages: what is staged, what the check finds, and the whole of it built."""

import re
import subprocess
import sys

import pytest

from pitb.docs import site
from pitb.errors import PitbError

PAGE = """# Title

[中文](page.zh.md)

A figure <!-- pitb:x row=a column=b -->1.5<!-- /pitb --> and a [file](../src/a.py), a
[page](other.md#there), `[code](../no/file)`, [configuration](../config/README.md),
[folder](../src).

<!-- pitb:table -->
| a |
| - |
| b |
<!-- /pitb -->

<!-- picture: loss "The loss" -->

<!-- picture: missing "Nothing" -->

```mermaid
flowchart LR
  a --> b
```

```python
x = "[not](a/link)"
```
"""


@pytest.fixture
def project(tmp_path):
    for name, text in {
        "docs/page.md": PAGE,
        "docs/page.zh.md": PAGE.replace("[中文](page.zh.md)", "[English](page.md)"),
        "docs/other.md": "# Other\n\n## There\n",
        "docs/other.zh.md": "# 另一页\n\n[页](page.zh.md)\n",
        "docs/assets/site.css": "a {}\n",
        "config/README.md": "# Keys\n\n[readme](../README.md)\n",
        "README.md": "# a\n",
        "src/a.py": 'print("```")\n',
        "results/plots/loss.svg": "<svg/>\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def staged(project):
    folder = project / "staged"
    site.stage(project, folder, lambda graph: f"<svg>{len(graph)}</svg>")
    return folder


def test_pages_are_staged_without_marks_with_pictures_and_sources(project):
    folder = staged(project)
    text = (folder / "en/page.md").read_text("utf-8")
    assert "pitb:" not in text
    assert "/pitb" not in text
    assert "A figure 1.5 and a [file](source/src/a.py.md), a" in text
    assert "[page](other.md#there)" in text
    assert "`[code](../no/file)`" in text
    assert "[configuration](configuration.md)" in text
    assert "\n\n| a |\n| - |\n| b |\n\n" in text
    assert '<a class="pitb-language" href="zh/page.html">中文</a>' in text
    assert "![The loss](assets/loss.svg)" in text
    assert "Nothing" not in text
    assert 'x = "[not](a/link)"' in text
    assert re.search(r"\[!\[\]\((assets/graph-\w+\.svg)\).*\]\(\1\)", text)
    assert (folder / "en/assets/loss.svg").is_file()
    assert "```text\na.py\n```" in (folder / "en/source/src.md").read_text("utf-8")
    source = (folder / "en/source/src/a.py.md").read_text("utf-8")
    assert '````python\nprint("```")\n````' in source
    assert "(index.md)" in (folder / "en/configuration.md").read_text("utf-8")
    chinese = (folder / "zh/page.md").read_text("utf-8")
    assert 'href="../page.html">English</a>' in chinese
    assert "[页](page.md)" in (folder / "zh/other.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("docs/page.md", "[a](../gone.py)", r"docs/page\.md links to \.\./gone\.py, and there is"),
        ("docs/alone.md", "# a", r"docs/alone\.md has no Chinese page alone\.zh\.md"),
        ("docs/page.md", "a <!-- pitb:x --> b", r"docs/page\.md, line 1: the mark is not closed"),
    ],
)
def test_a_page_that_cannot_be_staged_is_a_sentence(project, name, text, sentence):
    (project / name).write_text(text)
    with pytest.raises(PitbError, match=sentence):
        staged(project)


def test_every_page_has_its_place_in_both_menus(root):
    pages = {path.name for path in (root / "docs").glob("*.md") if ".zh." not in path.name}
    for name in ("mkdocs.yml", "mkdocs.zh.yml"):
        menu = (root / name).read_text("utf-8").partition("\nnav:\n")[2]
        listed = re.findall(r"(\S+\.md)$", menu, re.MULTILINE)
        assert sorted(listed) == sorted(pages | {"configuration.md"})


GOOD = '<html><body><h1 id="top">a</h1><a href="b.html#x">b</a><img src="a.svg"></body></html>'


@pytest.fixture
def built(tmp_path):
    (tmp_path / "index.html").write_text(GOOD)
    (tmp_path / "b.html").write_text('<p id="x"><a href="index.html#top">a</a></p>')
    (tmp_path / "a.svg").write_text('<svg><use href="#a"/></svg>')
    (tmp_path / "a.css").write_text("a { background: url(a.svg) }")
    return tmp_path


def test_a_good_site_passes(built):
    assert list(site.check(built)) == []


@pytest.mark.parametrize(
    ("file", "text", "sentence"),
    [
        ("c.html", '<script src="https://elsewhere/a.js"></script>', "c.html loads https://else"),
        ("c.html", '<script src="//elsewhere/a.js"></script>', "c.html loads //elsewhere"),
        ("c.html", '<link rel="stylesheet" href="http://e/a.css">', "c.html loads http://e"),
        ("c.html", '<link rel="preconnect" href="https://e">', "c.html loads https://e"),
        ("c.html", '<img srcset="a.svg 1x, https://e/b.png 2x">', "c.html loads https://e/b"),
        ("c.html", '<div style="background:url(https://e/b.png)">', "c.html loads https://e/b"),
        ("c.html", '<img src="gone.png">', "c.html loads gone.png, which is not there"),
        ("c.html", '<a href="gone.html">a</a>', "c.html links to gone.html, which is not there"),
        ("c.html", '<a href="b.html#y">a</a>', "c.html links to b.html#y, which has no such place"),
        ("c.html", '<a href="#y">a</a>', "c.html links to #y, which has no such place"),
        ("b.css", "@import 'https://e/font.css';", "b.css loads https://e/font.css"),
        ("b.css", "a { src: url('https://e/a.woff2') }", "b.css loads https://e/a.woff2"),
        ("b.svg", '<svg><image href="https://e/a.png"/></svg>', "b.svg loads https://e/a.png"),
    ],
)
def test_the_check_finds_what_is_wrong(built, file, text, sentence):
    (built / file).write_text(text)
    found = list(site.check(built))
    assert len(found) == 1
    assert found[0].startswith(sentence)


def test_an_empty_folder_is_no_site(tmp_path):
    assert len(list(site.check(tmp_path))) == 1


@pytest.mark.pipeline
def test_the_whole_site_is_built_and_needs_no_other_host(root):
    done = subprocess.run(
        [sys.executable, str(root / "scripts/build_site.py")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert ", 0 dead links or loads from elsewhere" in done.stdout
    folder = root / "results/site"
    for language, page in (("en", folder / "one-step.html"), ("zh", folder / "zh/one-step.html")):
        text = page.read_text("utf-8")
        assert f'<html lang="{language}"' in text
        assert "<!-- pitb" not in text
        assert "1.19e-07" in text
    rules = (folder / "rules.html").read_text("utf-8")
    assert rules.count('class="pitb-graph"') == 2
    assert "mermaid" not in rules
