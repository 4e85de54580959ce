"""What all versions are watched with."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pitb.config import Config
from pitb.watch import folders
from pitb.watch.changes import Item
from pitb.watch.versions import Wanted


@dataclass(frozen=True)
class Setup:
    """The project, and where the versions go."""

    root: Path
    """The project's folder."""
    base: Path
    """Its results, with which versions are compared."""
    out: Path
    """The folder of the versions."""
    config: Config
    config_files: tuple[Path, ...]
    say: Callable[[str], None]
    """Tells people how far things are."""
    jobs: int = 0
    """Processes of a build; 0 for as many as there are processors."""
    keep_free: float = folders.KEEP_GB
    """Gigabytes of disk that stay free."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """What Snakemake's --config sets of the configuration."""

    def folder(self, version: Wanted) -> Path:
        """That of a version."""
        return folders.of(self.out, version)

    def judged_by(self, *texts: str) -> str:
        """Changes when anything does that items are computed with, code and results."""
        package = self.root / "scripts" / "pitb"
        paths = [*package.rglob("*.py"), *package.rglob("*.json")]
        for page in self.config.pages:
            paths += [self.base / "tables" / page / "figures.csv"]
            paths += [self.root / "config" / "published" / f"{page}.csv"]
        paths += self.config_files
        # Which versions are watched makes no difference to what is found of one.
        overrides = {key: value for key, value in self.overrides.items() if key != "watch"}
        return folders.digest(paths, json.dumps(overrides, sort_keys=True), *texts)


def from_plain(found: list[dict[str, str]]) -> list[Item]:
    """Items as JSON has them."""
    return [Item(**item) for item in found]
