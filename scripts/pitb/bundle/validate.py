"""The official validator on a bundle's crate, without a network.

roc-validator asks for RO-Crate's JSON-LD context; it is given the one that the rocrate package
ships, and nothing else is answered.
"""

import logging
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from pitb.bundle import unpacking
from pitb.bundle.crate import VERSION

PROFILE = "provenance-run-crate"
CONTEXT = f"https://w3id.org/ro/crate/{VERSION}/context"
REQUIRED, RECOMMENDED = "REQUIRED", "RECOMMENDED"


@dataclass(frozen=True)
class Excepted:
    """A recommendation that a bundle does not follow, and why."""

    check: str
    """The validator's name of it."""
    why: str
    without_home: bool = False
    """Whether it falls away once ``CITATION.cff`` says where the project lives."""


EXCEPTIONS = (
    Excepted(
        "Action endTime",
        "times vary from run to run, so they stand in measured.json, outside the hash",
    ),
    Excepted(
        "SoftwareApplication id",
        "the tools are files and programs of the bundle itself, with names relative to it",
    ),
    Excepted(
        "Application url",
        "the project's own scripts have no address before CITATION.cff has one",
        without_home=True,
    ),
    Excepted(
        "Organization: RECOMMENDED url property",
        "nor have its authors",
        without_home=True,
    ),
)
"""All of them; the validator may complain of nothing else."""


@dataclass(frozen=True)
class Issue:
    """What the validator says of one entity."""

    severity: str
    check: str
    message: str
    entity: str

    @property
    def excepted(self) -> bool:
        """Whether it is one of `EXCEPTIONS`."""
        names = {item.check for item in EXCEPTIONS}
        return self.severity != REQUIRED and self.check in names


class _Served:
    """In place of a session of requests: the context, and nothing else."""

    def get(self, url: str, *_: Any, **__: Any) -> Any:
        import requests

        answer = requests.Response()
        answer.url = url
        if url.rstrip("/") == CONTEXT:
            answer.status_code = 200
            answer.headers["Content-Type"] = "application/ld+json"
            shipped = resources.files("rocrate").joinpath("data/ro-crate.jsonld")
            answer._content = shipped.read_bytes()
        else:
            answer.status_code = 504
        return answer

    head = get

    def close(self) -> None:
        """Nothing is open."""


def issues(bundle: Path) -> list[Issue]:
    """All that the validator says of a bundle's crate, at REQUIRED and RECOMMENDED.

    Raises:
        PitbError: The bundle cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="pitb-") as scratch:
        folder = Path(scratch) / "crate"
        folder.mkdir()
        with unpacking.opened(bundle) as archive:
            archive.unpack(folder)
        return issues_of(folder, Path(scratch) / "cache")


def issues_of(folder: Path, cache: Path) -> list[Issue]:
    """The same of an unpacked crate; ``cache`` is a file that the validator may write."""
    from rocrate_validator import services
    from rocrate_validator.models import Severity, ValidationSettings
    from rocrate_validator.utils.http import HttpRequester

    logging.getLogger("rocrate_validator").setLevel(logging.ERROR)
    settings = ValidationSettings(
        rocrate_uri=folder,
        profile_identifier=PROFILE,
        requirement_severity=Severity.RECOMMENDED,
        cache_path=cache,
        offline=True,
    )
    HttpRequester().session = _Served()
    result = services.validate(settings)
    return sorted(
        {
            Issue(
                str(issue.severity.name),
                str(issue.check.name),
                str(issue.message),
                str(issue.violatingEntity or ""),
            )
            for issue in result.get_issues()
        },
        key=lambda issue: (issue.severity, issue.check, issue.entity),
    )


def complaints(found: Iterable[Issue]) -> list[str]:
    """The issues that are not excepted, a sentence each."""
    return [
        f"{issue.severity}: {issue.check}: {issue.message} ({issue.entity or 'the crate'})"
        for issue in found
        if not issue.excepted
    ]
