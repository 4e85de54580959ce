"""How each page's tables are computed, by page and by table."""

from collections.abc import Callable

from pitb.compare import NotComparable
from pitb.pages import PAGES, one_step, optimizer_defaults
from pitb.pages.sources import Sources
from pitb.tables import Table

Builders = dict[str, Callable[[Sources], Table]]

BUILDERS: dict[str, Builders] = {
    "one-step": one_step.TABLES,
    "optimizer-defaults": optimizer_defaults.TABLES,
}


def build(page: str, found: Sources) -> list[Table]:
    """All tables of a page; one whose runs could not be compared says so in its place."""
    tables = []
    for name in PAGES[page].tables:
        try:
            tables.append(BUILDERS[page][name](found))
        except NotComparable as error:
            tables.append(Table(name, error=str(error)))
    return tables
