"""The two pages: which tables each has, and how each is computed from what the runs left behind."""

from collections.abc import Callable

from pitb.pages import one_step, optimizer_defaults
from pitb.pages.sources import Sources
from pitb.tables import Table

PAGES: dict[str, Callable[[Sources], list[Table]]] = {
    "one-step": one_step.tables,
    "optimizer-defaults": optimizer_defaults.tables,
}
"""Each page's tables by its name, which is that of its folder and of its published figures."""

NEEDS: dict[str, type[one_step.Needs] | type[optimizer_defaults.Needs]] = {
    "one-step": one_step.Needs,
    "optimizer-defaults": optimizer_defaults.Needs,
}
"""What each page is computed from, for the pipeline."""
