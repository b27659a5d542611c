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
from data.archives import Archive, unpack
from data.corpora import ArchiveFormat, CorpusFile

PLAIN, GZIP, TAR_GZIP = ArchiveFormat
FIRST, SECOND = b"ein Hund\nzwei Hunde\n", b"a dog\ntwo dogs\n"
FILES = tuple(
    CorpusFile(name=f"train/{side}.txt", split="train", member=f"set/{side}.txt")
    for side in ("in", "out")
)


def tar_of(*members: tuple[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def link_of(name: str, target: str, kind: bytes) -> bytes:
    """An archive that contains one link."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, target
        archive.addfile(member)
    return buffer.getvalue()


def unpacked(folder: Path, content: bytes, format: ArchiveFormat) -> dict[str, bytes]:
    """Unpacks an archive of this content and returns all files in ``folder``."""
    archive = folder / "archive"
    archive.write_bytes(content)
    files = FILES if format is TAR_GZIP else FILES[:1]
    try:
        for file, path in unpack(Archive(archive, format, files, "THE ORIGIN"), folder / "a" / "b"):
            assert path == folder / "a" / "b" / file.name
    finally:
        archive.unlink()
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize(
    ("content", "format"),
    [(FIRST, PLAIN), (gzip.compress(FIRST), GZIP)],
)
def test_a_single_file_is_unpacked(tmp_path: Path, content: bytes, format: ArchiveFormat) -> None:
    assert unpacked(tmp_path, content, format) == {"a/b/train/in.txt": FIRST}


def test_only_the_wanted_members_are_unpacked(tmp_path: Path) -> None:
    """In any order, with or without a leading "./"; names that lead elsewhere are ignored."""
    content = tar_of(
        ("../escaped.txt", b"x"),
        (str(tmp_path / "absolute.txt"), b"x"),
        ("./set/out.txt", SECOND),
        ("set/vocabs", b"x"),
        ("set/in.txt", FIRST),
    )
    assert unpacked(tmp_path, content, TAR_GZIP) == {
        "a/b/train/in.txt": FIRST,
        "a/b/train/out.txt": SECOND,
    }


def damaged(content: bytes) -> bytes:
    """Gzipped, with one bit of its checksum changed."""
    packed = bytearray(gzip.compress(content))
    packed[-6] ^= 1
    return bytes(packed)


@pytest.mark.parametrize(
    ("content", "format", "message"),
    [
        (damaged(FIRST), GZIP, "not a valid gzip file: CRC check failed"),
        (
            gzip.compress(FIRST)[:-12],
            GZIP,
            "not a valid gzip file: Compressed file ended",
        ),
        (gzip.compress(FIRST)[:12] + b"\xff" * 20, GZIP, "not a valid gzip file"),
        (FIRST, GZIP, "not a valid gzip file: Not a gzipped file"),
        (b"", TAR_GZIP, "not a valid tar.gz file"),
        (FIRST, TAR_GZIP, "not a valid tar.gz file"),
        (gzip.compress(FIRST), TAR_GZIP, "not a valid tar.gz file"),
        (tar_of(("set/in.txt", FIRST))[:40], TAR_GZIP, "not a valid tar.gz file"),
        (tar_of(("set/in.txt", FIRST)), TAR_GZIP, "has no set/out.txt"),
        (
            tar_of(("../set/in.txt", FIRST)),
            TAR_GZIP,
            "has no set/in.txt, set/out.txt",
        ),
    ],
)
def test_a_bad_archive_is_named_by_its_origin(
    tmp_path: Path, content: bytes, format: ArchiveFormat, message: str
) -> None:
    with pytest.raises(CorpusError) as caught:
        unpacked(tmp_path, content, format)
    assert str(caught.value).startswith(f"THE ORIGIN: {message}")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE])
def test_links_and_folders_in_an_archive_are_not_files(tmp_path: Path, kind: bytes) -> None:
    content = link_of("set/in.txt", "/etc/passwd", kind)
    with pytest.raises(CorpusError, match=r"has no set/in\.txt"):
        unpacked(tmp_path, content, TAR_GZIP)


def test_an_archive_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "none", PLAIN, FILES[:1], "THE ORIGIN")
    with pytest.raises(CorpusError, match="THE ORIGIN: cannot read: No such file"):
        list(unpack(archive, tmp_path))


def test_a_place_that_cannot_be_written_is_not_blamed_on_the_archive(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(UserError, match=r"train/in\.txt: cannot write") as caught:
        unpacked(tmp_path, FIRST, PLAIN)
    assert not isinstance(caught.value, CorpusError)


def test_a_file_larger_than_published_is_given_up(tmp_path: Path) -> None:
    """A gzip file of 600 KB grew to 630 MB on the disk, though the published size is known."""
    file = CorpusFile(name="train.de", split="train", size=len(FIRST))
    archive = Archive(tmp_path / "a.gz", GZIP, (file,), "THE ORIGIN")
    archive.path.write_bytes(gzip.compress(b"0" * 100_000_000))
    with pytest.raises(CorpusError, match=rf"THE ORIGIN: not train\.de .*than {len(FIRST)} bytes"):
        list(unpack(archive, tmp_path / "out"))
    assert list((tmp_path / "out").iterdir()) == []


def test_lines_without_a_known_size_are_bounded_by_their_number(tmp_path: Path) -> None:
    file = CorpusFile(name="train.txt", split="train", rows=2)
    archive = Archive(tmp_path / "a.gz", GZIP, (file,), "THE ORIGIN")
    archive.path.write_bytes(gzip.compress(b"0" * 2001))
    with pytest.raises(CorpusError, match=r"THE ORIGIN: not train\.txt .*than 2,000 bytes"):
        list(unpack(archive, tmp_path / "out"))
    archive.path.write_bytes(gzip.compress(b"0" * 2000))
    assert len(list(unpack(archive, tmp_path / "out"))) == 1


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
def test_a_large_archive_of_other_members_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: bytes
) -> None:
    """A long name in a tar archive is held in memory: 10 MB of gzip could take 10 GB."""
    monkeypatch.setattr("data.archives._MAX_UNWANTED_BYTES", 1_000_000)
    member = tarfile.TarInfo("a")
    member.type, member.size = kind, 100_000_000
    content = gzip.compress(member.tobuf() + b"0" * member.size, compresslevel=1)
    files = tuple(replace(file, rows=2) for file in FILES)
    archive = Archive(tmp_path / "a.tar.gz", TAR_GZIP, files, "THE ORIGIN")
    archive.path.write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(CorpusError, match=r"it has more than 1,004,000 bytes"):
            list(unpack(archive, tmp_path / "out"))
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


@given(
    position=st.integers(0, 10**9),
    byte=st.integers(0, 255),
    cut=st.booleans(),
    format=st.sampled_from([GZIP, TAR_GZIP]),
)
def test_a_damaged_archive_is_refused_or_unpacks(
    tmp_path_factory: pytest.TempPathFactory,
    position: int,
    byte: int,
    cut: bool,
    format: ArchiveFormat,
) -> None:
    folder = tmp_path_factory.mktemp("archive")
    whole = tar_of(("set/in.txt", FIRST), ("set/out.txt", SECOND))
    whole = whole if format is TAR_GZIP else gzip.compress(FIRST)
    place = 1 + position % (len(whole) - 1)  # an empty file is refused by the reader
    content = whole[:place] if cut else whole[:place] + bytes([byte]) + whole[place + 1 :]
    try:
        assert FIRST in unpacked(folder, content, format).values()
    except CorpusError as error:
        assert str(error).startswith("THE ORIGIN: ")
