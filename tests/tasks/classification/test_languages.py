"""The example that makes a table of languages."""

import sys
from collections import Counter
from pathlib import Path

import pytest

from data.tables import open_table
from examples import languages


def test_every_language_has_as_many_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.de").write_text("".join(f"Satz {n}\n" for n in range(20)), encoding="utf-8")
    (tmp_path / "b.de").write_text("Satz 1\n\nNoch einer, mit Komma\n", encoding="utf-8")
    (tmp_path / "in.txt").write_text("".join(f"天 地 {n} ，山\n" for n in range(20)), "utf-8")
    out = tmp_path / "out.csv"
    files = [f"de={tmp_path / 'a.de'}", f"de={tmp_path / 'b.de'}", f"zh={tmp_path / 'in.txt'}"]
    monkeypatch.setattr(sys, "argv", ["languages.py", *files, "--rows", "30", "--out", str(out)])
    languages.main()
    rows = [record for _, record in open_table(out).rows()]
    assert Counter(row["language"] for row in rows) == {"de": 15, "zh": 15}
    assert len({row["sentence"] for row in rows}) == 30
    assert all(row["sentence"].startswith("天地") for row in rows if row["language"] == "zh")
    monkeypatch.setattr(sys, "argv", ["languages.py", *files, "--rows", "60"])
    with pytest.raises(SystemExit, match="de: 21 different lines, but 30 are needed"):
        languages.main()
