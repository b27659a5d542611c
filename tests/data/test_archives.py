"""Archives: the wanted files are unpacked whole; a bad archive writes nothing else."""

import gzip
import io
import tarfile
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import CorpusError, UserError
from data.corpora import CorpusFile
from data.fetching import unpack
from tests.data.small_corpora import ENGLISH, GERMAN, tar_of

NAMES = ("in.txt", "out.txt")
FILES = tuple(CorpusFile(name=f"train/{name}", member=f"set/{name}") for name in NAMES)
PLAIN, GZIP, TAR = "a.txt", "a.txt.gz", "a.tar.gz"


def unpacked(
    folder: Path, content: bytes, name: str, files: tuple[CorpusFile, ...] = FILES
) -> dict[str, bytes]:
    """Unpacks an archive of this name and content and returns all files in ``folder``."""
    archive = folder / name
    archive.write_bytes(content)
    try:
        wanted = files if name == TAR else files[:1]
        unpack(archive, wanted, folder / "a" / "b", origin="THE ORIGIN")
    finally:
        archive.unlink()
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize(("content", "name"), [(GERMAN, PLAIN), (gzip.compress(GERMAN), GZIP)])
def test_a_single_file_is_unpacked(tmp_path: Path, content: bytes, name: str) -> None:
    assert unpacked(tmp_path, content, name) == {"a/b/train/in.txt": GERMAN}


def test_only_the_wanted_members_are_unpacked(tmp_path: Path) -> None:
    """In any order, with or without a leading "./"; names that lead elsewhere are ignored."""
    members = {
        "../escaped.txt": b"x",
        str(tmp_path / "absolute.txt"): b"x",
        "./set/out.txt": ENGLISH,
        "set/vocabs": b"x",
        "set/in.txt": GERMAN,
    }
    expected = {"a/b/train/in.txt": GERMAN, "a/b/train/out.txt": ENGLISH}
    assert unpacked(tmp_path, tar_of(members), TAR) == expected


def damaged(content: bytes) -> bytes:
    """Gzipped, with one bit of its checksum changed."""
    packed = bytearray(gzip.compress(content))
    packed[-6] ^= 1
    return bytes(packed)


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (damaged(GERMAN), GZIP, "not a valid gz file: CRC check failed"),
        (gzip.compress(GERMAN)[:-12], GZIP, "not a valid gz file: Compressed file ended"),
        (gzip.compress(GERMAN)[:12] + b"\xff" * 20, GZIP, "not a valid gz file"),
        (GERMAN, GZIP, "not a valid gz file: Not a gzipped file"),
        (b"", TAR, "not a valid gz file"),
        (gzip.compress(GERMAN), TAR, "not a valid gz file"),
        (tar_of({"set/in.txt": GERMAN})[:40], TAR, "not a valid gz file"),
        (tar_of({"set/in.txt": GERMAN}), TAR, "has no set/out.txt"),
        (tar_of({"../set/in.txt": GERMAN}), TAR, "has no set/in.txt, set/out.txt"),
    ],
)
def test_a_bad_archive_is_named_by_its_origin(
    tmp_path: Path, content: bytes, name: str, message: str
) -> None:
    with pytest.raises(CorpusError) as caught:
        unpacked(tmp_path, content, name)
    assert str(caught.value).startswith(f"THE ORIGIN: {message}")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE])
def test_links_and_folders_in_an_archive_are_not_files(tmp_path: Path, kind: bytes) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        member = tarfile.TarInfo("set/in.txt")
        member.type, member.linkname = kind, "/etc/passwd"
        archive.addfile(member)
    with pytest.raises(CorpusError, match=r"has no set/in\.txt"):
        unpacked(tmp_path, buffer.getvalue(), TAR)


def test_a_place_that_cannot_be_written_is_not_blamed_on_the_archive(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(UserError, match=r"train/in\.txt: cannot write") as caught:
        unpacked(tmp_path, GERMAN, PLAIN)
    assert not isinstance(caught.value, CorpusError)


@pytest.mark.parametrize(("limit", "most"), [({"size": 20}, 20), ({"rows": 2}, 2000)])
def test_a_file_larger_than_published_is_given_up(
    tmp_path: Path, limit: dict[str, int], most: int
) -> None:
    """A gzip file of 600 KB grew to 630 MB on the disk, though the published size is known."""
    files = tuple(replace(file, **limit) for file in FILES)
    large = b"0" * 20_000_000
    assert unpacked(tmp_path, gzip.compress(large[:most]), GZIP, files)
    for name, content in (
        (GZIP, gzip.compress(large)),
        (PLAIN, large),
        (TAR, tar_of({"set/in.txt": large, "set/out.txt": b""})),
    ):
        with pytest.raises(CorpusError, match=rf"THE ORIGIN: .* more than {most:,} bytes"):
            unpacked(tmp_path, content, name, files)
        assert [path.name for path in (tmp_path / "a" / "b" / "train").iterdir()] == ["in.txt"]


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
def test_a_large_archive_of_other_members_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: bytes
) -> None:
    """A long name in a tar archive is held in memory: 10 MB of gzip could take 10 GB."""
    monkeypatch.setattr("data.fetching._MAX_UNWANTED_BYTES", 1_000_000)
    member = tarfile.TarInfo("a")
    member.type, member.size = kind, 100_000_000
    content = gzip.compress(member.tobuf() + b"0" * member.size, compresslevel=1)
    files = tuple(replace(file, rows=2) for file in FILES)
    tracemalloc.start()
    try:
        with pytest.raises(CorpusError, match=r"more than 1,004,000 bytes"):
            unpacked(tmp_path, content, TAR, files)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


@given(
    position=st.integers(0, 10**9),
    byte=st.integers(0, 255),
    cut=st.booleans(),
    name=st.sampled_from([GZIP, TAR]),
)
def test_a_damaged_archive_is_refused_or_unpacks(
    tmp_path_factory: pytest.TempPathFactory, position: int, byte: int, cut: bool, name: str
) -> None:
    folder = tmp_path_factory.mktemp("archive")
    whole = gzip.compress(GERMAN)
    if name == TAR:
        whole = tar_of({"set/in.txt": GERMAN, "set/out.txt": ENGLISH})
    place = 1 + position % (len(whole) - 1)  # an empty file is refused by the reader
    content = whole[:place] if cut else whole[:place] + bytes([byte]) + whole[place + 1 :]
    try:
        assert GERMAN in unpacked(folder, content, name).values()
    except CorpusError as error:
        assert str(error).startswith("THE ORIGIN: ")
