"""The list of what a report shows."""

from collections import Counter
from pathlib import Path

import pytest

from pitb import reported
from pitb.config import load
from pitb.labels import SHEETS
from pitb.pages import PAGES


@pytest.fixture(scope="module")
def config(root):
    return load([root / "config/config.yaml"], root / "config/schema.json", {})


@pytest.fixture(scope="module")
def items(config):
    found = [*reported.tables(config), *reported.pictures(config), *reported.port()]
    for scope in reported.SCOPE_NAMES:
        found += [*reported.breadth(scope), *reported.breadth_pictures(scope)]
    pairs = config.explained()
    return [*found, *reported.explanations(pairs), *reported.explanation_pictures(pairs)]


def test_each_has_a_place_and_a_name_of_its_own(items):
    assert max(Counter(item.path for item in items).values()) == 1
    places = Counter((item.category, item.subcategory, item.label) for item in items)
    assert max(places.values()) == 1


def test_each_caption_is_there_and_none_is_left_over(items, root):
    captions = {path.stem for path in (root / "report").glob("*.rst")}
    assert captions == {item.caption for item in items} | {"workflow"}


def test_every_table_sheet_and_comparison_is_in_it(items, config):
    paths = [Path(item.path).name for item in items]
    for page, found in PAGES.items():
        assert {f"{page}.{table}.html" for table in found.tables} <= set(paths)
    for sheet in SHEETS:
        assert f"breadth-slice.{sheet}.html" in paths
    assert sum(path.endswith(".loss.svg") for path in paths) == len(config.pairs)


def test_one_label_is_all_that_an_entry_has(items):
    # Snakemake's frame makes a switch of a second label with two values, and breaks where the
    # entries are no table of the two.
    for item in items:
        assert isinstance(item.label, str)
        assert item.category[0].isdigit()
