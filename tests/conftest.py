"""What tests of every room share."""

from pathlib import Path

import pytest

_SHARED_DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real corpora beside the repository; tests that need it are skipped without."""
    if not _SHARED_DATA.is_dir():
        pytest.skip(f"the real corpora are not at {_SHARED_DATA}")
    return _SHARED_DATA
