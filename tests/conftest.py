from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def programs() -> Path:
    folder = ROOT / "target" / "release"
    if not (folder / "optdef").exists():
        pytest.fail("the burn programs are not built; run make first")
    return folder
