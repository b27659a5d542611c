"""Archives: the wanted files are unpacked whole; a bad archive writes nothing else."""

import gzip
import io
import tarfile
from pathlib import Path

import pytest

from transformer_suite.core.errors import CorpusError, UserError
from transformer_suite.data.archives import Archive, unpack
from transformer_suite.data.corpora import ArchiveFormat, CorpusFile

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
        (damaged(FIRST), GZIP, "not a sound gzip file: CRC check failed"),
        (
            gzip.compress(FIRST)[:-12],
            GZIP,
            "not a sound gzip file: Compressed file ended",
        ),
        (gzip.compress(FIRST)[:12] + b"\xff" * 20, GZIP, "not a sound gzip file"),
        (FIRST, GZIP, "not a sound gzip file: Not a gzipped file"),
        (b"", TAR_GZIP, "not a sound tar.gz file"),
        (FIRST, TAR_GZIP, "not a sound tar.gz file"),
        (gzip.compress(FIRST), TAR_GZIP, "not a sound tar.gz file"),
        (tar_of(("set/in.txt", FIRST))[:40], TAR_GZIP, "not a sound tar.gz file"),
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
