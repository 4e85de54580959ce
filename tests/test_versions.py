import re

import pytest

from pitb import versions
from pitb.trace import Trace


def run(**found):
    return Trace([], [], {"versions": found, "threads": 1})


def english(rows):
    return {name["en"]: value for name, value in rows}


def test_versions_come_from_the_traces():
    found = english(versions.rows([run(torch="2.15.0", python="3.11.7"), run(burn="0.22.1")]))
    assert found["PyTorch"] == "2.15.0"
    assert found["burn"] == "0.22.1"
    assert found["threads of PyTorch"] == "1"
    assert "rustc (built burn's programs)" not in found


def test_traces_that_differ_are_all_named():
    found = english(versions.rows([run(torch="2.15.0"), run(torch="2.14.1"), run(torch="2.15.0")]))
    assert found["PyTorch"] == "2.15.0, 2.14.1"


def test_the_packages_and_the_machine_are_there():
    import numpy
    import snakemake

    found = english(versions.rows([]))
    assert found["numpy"] == numpy.__version__
    assert found["snakemake"] == snakemake.__version__
    assert found["processor"]
    assert int(found["cores"]) >= 1
    assert all(re.search(r"\S", value) for value in found.values())


def test_nothing_names_the_machine():
    import platform

    text = " ".join(value for _, value in versions.rows([]))
    assert platform.node() not in text.split()


@pytest.mark.parametrize("system", ["Linux", "Darwin", "Plan9"])
def test_a_processor_has_a_name_on_every_system(system, monkeypatch):
    monkeypatch.setattr(versions.platform, "system", lambda: system)
    assert versions.processor()


def test_every_name_is_there_in_chinese():
    for name, _ in versions.rows([run(torch="1", burn="1", rustc="1", python="1", target="x")]):
        assert name["zh"]
