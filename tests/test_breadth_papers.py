from dataclasses import fields

import pytest

from pitb.breadth import papers
from pitb.reference.equations import Equations
from pitb.reference.papers import PAPERS
from pitb.registry import by_pytorch_name, optimizers


def test_the_papers_are_of_the_optimizers_that_pytorch_lacks():
    assert set(PAPERS) == {o.pytorch for o in optimizers() if o.module != "torch.optim"}


@pytest.mark.parametrize("name", PAPERS)
def test_a_paper_settles_choices_that_exist(name):
    known = {item.name for item in fields(Equations)}
    assert set(PAPERS[name].choices) <= known
    assert "arXiv:" in PAPERS[name].source
    assert by_pytorch_name(name)
    Equations().but(**PAPERS[name].choices)


def test_a_difference_that_no_case_shows_is_complained_of():
    row = {"optimizer": "Adan", "implementation": "burn 0.22.1", "choice": "prox"}
    row |= {"in_paper": "flag", "in_library": "never", "tried": 7, "differ": 0}
    silent = {**row, "relation": papers.DIFFERENT}
    assert papers.complaints([silent]) == [
        "Adan, burn 0.22.1: prox is 'never' and not the paper's 'flag', but none of 7 cases shows"
        " it"
    ]
    assert papers.complaints([{**silent, "differ": 1}]) == []
    assert papers.complaints([{**row, "relation": papers.AS_IN_PAPER}]) == []


def test_what_did_not_have_to_be_tried_has_no_numbers():
    row = {"relation": papers.DIFFERENT, "tried": 7, "differ": 0, "most": 0.0}
    same = {**row, "relation": papers.AS_IN_PAPER}
    assert list(papers.shown([row, same])) == [row, {**same, "tried": "", "differ": "", "most": ""}]
