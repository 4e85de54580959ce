"""The report, opened as a reader opens it: every entry of the menu, wide and narrow."""

import json
import re

import pytest

import browser as browsers
from pitb import reported
from pitb.labels import SHEETS
from pitb.pages import PAGES
from pitb.results import PLOTS

pytestmark = pytest.mark.pipeline

WIDTHS = {"desk": 1280, "telephone": 390}
LABEL = "entry 条目"
HAN = re.compile(r"[\u4e00-\u9fff]")


@pytest.fixture(scope="module")
def report(root):
    """What `make report` has made, and of the present sources."""
    path = root / "report.html"
    if not path.is_file():
        pytest.fail("report.html is not there; run make report first")
    sources = [*root.glob("report/*"), *root.glob("rules/*.smk"), *root.glob("scripts/pitb/page*")]
    newest = max(sources, key=lambda source: source.stat().st_mtime)
    if newest.stat().st_mtime > path.stat().st_mtime:
        pytest.fail(f"report.html is older than {newest.relative_to(root)}; run make report")
    return path


def held(path, name):
    """A value of the report's own, as its frame reads it."""
    text = path.read_text(encoding="utf-8")
    match = re.search(rf'<script id="{name}">\s*var \w+ = (.*?);\s*</script>', text, re.DOTALL)
    return json.loads(match[1])


@pytest.fixture(scope="module")
def results(report):
    return held(report, "results")


@pytest.fixture(scope="module")
def chromium():
    with browsers.chromium() as found:
        yield found


def test_everything_is_in_it(report, results):
    categories = held(report, "categories")
    assert list(categories) and all(re.match(r"\d ", name) for name in categories)
    shown = set(results)
    assert {"results/report/ledger.html", "results/report/comparisons.html"} <= shown
    assert "results/report/versions.html" in shown
    for page, found in PAGES.items():
        assert {f"results/report/{page}.{table}.html" for table in found.tables} <= shown
    for kind in PLOTS:
        assert sum(name.endswith(f".{kind}.svg") for name in shown) == 17
    for run in ("sgdm", "adamw", "rmsprop", "adagrad"):
        assert f"results/plots/pytorch.{run}.remaining.svg" in shown
    # The slice, which make test has made.
    sheets = {f"results/report/breadth-slice.{sheet}.html" for sheet in (*SHEETS, "findings")}
    assert sheets <= shown
    assert {f"results/plots/breadth-slice.{name}.svg" for name in ("coverage", "kills")} <= shown
    assert reported.COVERAGE in categories


def test_every_result_has_a_label_and_a_caption_in_both_languages(results):
    for name, found in results.items():
        caption = found["caption"]
        assert "system-message" not in caption, name
        assert HAN.search(caption), name
        assert re.search(r"[a-z]{3} [a-z]", re.sub("<.*?>", "", caption)), name
        assert found["labels"][LABEL].strip(), name
        # What is no picture and no page would only be downloaded.
        assert found["mime_type"] in ("image/svg+xml", "text/html"), name


def test_the_first_page_speaks_both_languages(report):
    text = held(report, "workflow-desc")
    assert "system-message" not in text
    assert "PyTorch into burn" in text
    assert HAN.search(text)
    assert "The whole field was not made here" not in text


def settled(page):
    """Wait until what was opened is there, and its frame too."""
    page.wait_for_function(
        "() => [...document.images].every((image) => image.complete)"
        " && [...document.querySelectorAll('iframe')].every((f) => f.contentWindow)"
    )
    for frame in page.frames[1:]:
        frame.wait_for_load_state("load")


def check(page, errors, what):
    settled(page)
    for frame in page.frames:
        whole(frame, what)
    for frame in page.frames[1:]:
        frame.get_by_text("中文", exact=True).click()
        whole(frame, f"{what}, in Chinese")
    assert errors == [], what


def whole(frame, what):
    assert frame.evaluate(browsers.CUT_OFF)[:5] == [], what
    assert frame.evaluate(browsers.BROKEN) == [], what


def listed(page, category, subcategory, alone):
    """Open a list of results from the menu; gives its rows."""
    menu = page.locator("#app > div > nav")
    menu.locator("nav a").first.click()  # home
    menu.get_by_text("Statistics", exact=True).wait_for()
    menu.get_by_text(category, exact=True).click()
    if not alone:
        menu.get_by_text(subcategory, exact=True).click()
    return menu, menu.locator("tbody tr")


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
def test_a_reader_finds_and_sees_it_all(width, report, results, chromium):
    seen = set()
    categories = held(report, "categories")
    with browsers.page(chromium, width) as (page, errors):
        page.goto(report.as_uri())
        page.wait_for_selector("#rulegraph canvas")
        check(page, errors, "the first page")
        page.get_by_text("Statistics", exact=True).click()
        page.wait_for_selector("#timeline canvas")
        check(page, errors, "statistics")
        page.get_by_text("About", exact=True).click()
        page.get_by_text(re.compile("^pygments ")).click()
        check(page, errors, "a licence")
        captions = set()
        for category, subcategories in categories.items():
            for subcategory, names in subcategories.items():
                place = (page, category, subcategory, len(subcategories) == 1)
                _, rows = listed(*place)
                assert rows.count() == len(names)
                check(page, errors, f"{category}, {subcategory}")
                by_row = {}
                for number in range(len(names)):
                    row = rows.nth(number)
                    label = row.locator("td").first.inner_text()
                    row.locator("a").first.click()
                    shown = page.locator("#app .grow > .p-3 > img, #app iframe")
                    shown.wait_for()
                    source = shown.get_attribute("src")
                    (name,) = [n for n in names if results[n]["data_uri"] == source]
                    assert results[name]["labels"][LABEL] == label
                    check(page, errors, f"{name} at {width}")
                    by_row[number] = name
                seen |= set(by_row.values())
                # What explains them: each caption once.
                for number, name in by_row.items():
                    if results[name]["caption"] not in captions:
                        captions.add(results[name]["caption"])
                        menu, rows = listed(*place)
                        rows.nth(number).locator("a").nth(1).click()
                        menu.get_by_text("Description", exact=True).wait_for()
                        check(page, errors, f"the caption of {name}")
                        menu.get_by_text("Snakemake rule").locator("xpath=following::a[1]").click()
                        menu.get_by_text("Code", exact=True).wait_for()
                        check(page, errors, f"the rule of {name}")
    assert seen == set(results)


def test_a_table_shows_its_chinese(report, root, chromium):
    path = root / "results/report/optimizer-defaults.mismatch.html"
    for width in WIDTHS.values():
        with browsers.page(chromium, width) as (page, errors):
            page.goto(path.as_uri())
            assert page.get_by_text("Only the learning rate given").is_visible()
            page.get_by_text("中文").click()
            assert not page.get_by_text("Only the learning rate given").is_visible()
            assert page.get_by_role("heading", name="只给学习率").is_visible()
            check(page, errors, width)


def test_no_text_of_a_picture_is_cut_off(report, root, results, chromium):
    pictures = [name for name in results if name.endswith(".svg")]
    assert len(pictures) > 50
    with browsers.page(chromium, 1280) as (page, errors):
        for name in pictures:
            text = (root / name).read_text(encoding="utf-8")
            page.set_content(text[text.index("<svg") :])
            assert page.locator('g[id^="text_"]').count() > 3, name
            assert page.evaluate(browsers.OUTSIDE) == [], name
        assert errors == []


FAULTS = {
    "hidden": '<div style="width: 60px; overflow: hidden; white-space: nowrap">a long text</div>',
    "wide": '<div style="width: 2000px; text-align: right">far away</div>',
    "sideways": '<div style="overflow: auto"><p style="padding-left: 2000px">far</p></div>',
    "low": '<div style="height: 10px; overflow: hidden"><br><br>below</div>',
    "above": '<div style="height: 90px; overflow: auto; display: flex; align-items: center">'
    '<div style="flex-shrink: 0">top<div style="height: 500px"></div></div></div>',
}


@pytest.mark.parametrize("name", FAULTS)
def test_text_that_is_cut_off_is_noticed(name, chromium):
    """The control of what the tests above rely on."""
    with browsers.page(chromium, 390) as (page, _):
        page.set_content(f"<p>whole</p>{FAULTS[name]}")
        (found,) = page.evaluate(browsers.CUT_OFF)
        assert "whole" not in found
        page.set_content("<p>whole</p><div style='height: 50px; overflow: auto'>" + "line<br>" * 50)
        assert page.evaluate(browsers.CUT_OFF) == []


def test_errors_requests_and_broken_pictures_are_noticed(chromium):
    with browsers.page(chromium, 390) as (page, errors):
        page.set_content(
            "<img src='data:image/png;base64,AAAA'><script>console.error('a')</script>"
        )
        page.evaluate("setTimeout(() => { throw new Error('b') })")
        page.wait_for_timeout(50)
        assert page.evaluate(browsers.BROKEN) == ["data:image/png;base64,AAAA"]
        assert errors == ["a", "b"]
        page.set_content("<canvas width=2000 height=10></canvas>")
        assert page.evaluate(browsers.BROKEN) == ["CANVAS"]
        page.evaluate("fetch('https://example.invalid/x').catch(() => 0)")
        assert any("example.invalid" in error for error in errors)
        page.set_content(
            "<svg width=50 height=50><g id=text_1><text x=40 y=20>wide</text></g></svg>"
        )
        assert page.evaluate(browsers.OUTSIDE) == ["text_1"]
