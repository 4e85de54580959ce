"""Checking a bundle that someone has sent: nothing is run, and nothing needed but its files.

See `pitb.bundle.limits` for the process that this runs in.
"""

from pathlib import Path
from typing import Any

import pitb
from pitb.bundle import unpacking
from pitb.bundle.report import Report
from pitb.errors import PitbError


def verify(path: Path, work: Path, findings: bool = False) -> dict[str, Any]:
    """Check a bundle; the report as JSON.

    Args:
        path: The zip.
        work: An empty folder, for the unpacked files.
        findings: Whether the runs of the findings are trained again for their sizes.

    Raises:
        PitbError: It could not be read: what is wrong, in a sentence.
    """
    folder = work / "bundle"
    folder.mkdir()
    try:
        return _verify(path, folder, findings)
    except PitbError as error:
        sentence = str(error).replace(f"{folder}/", "")
        where = "" if sentence.startswith(str(path)) else f"{path}: "
        raise PitbError(f"{where}{sentence}") from None


def _verify(path: Path, folder: Path, findings: bool) -> dict[str, Any]:
    report = Report(str(path))
    with unpacking.opened(path) as archive:
        names = [entry.filename for entry in archive.entries]
        archive.unpack(folder)
    # Most of what is no bundle is refused before these are imported, which takes half a second.
    from pitb.bundle import described

    listed = described.check_manifest(folder, names, report)
    described.check_name(path, folder, report)
    altered = bool(report.faults)
    try:
        described.check_measured(folder, names, report)
        told = described.description(folder)
        described.check_crate(folder, names, told, listed, report)
        if told["pitb"] != pitb.__version__:
            report.notes.append(f"made by pitb {told['pitb']}, checked by pitb {pitb.__version__}")
        if told["differs_from_commit"]:
            changed = ", ".join(told["differs_from_commit"][:3])
            report.notes.append(f"its sources differ from commit {told['commit']}: {changed}")
        from pitb.bundle import again

        again.check(folder, names, told, findings, report)
    except PitbError as error:
        # What is broken where a checksum is wrong was told already.
        if not altered:
            raise
        sentence = str(error).replace(f"{folder}/", "")
        report.taken("what follows from the altered files", sentence)
    report.notes.append(
        "traces that differ from the true ones by no more than roundings, with all that follows "
        "from them made again, cannot be told from within; who vouches for the hash vouches for "
        "them, and for what is listed as not recomputed"
    )
    return report.json()
