"""Packages: what is wanted comes out whole, and a bad archive writes nothing it should not."""

import gzip
import io
import tarfile
from pathlib import Path

import pytest

from transformer_suite.core.errors import CorpusError, UserError
from transformer_suite.data.archives import Package, unpack
from transformer_suite.data.corpora import CorpusFile, Packing

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
    """An archive with nothing but a link."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, target
        archive.addfile(member)
    return buffer.getvalue()


def unpacked(folder: Path, content: bytes, packing: Packing) -> dict[str, bytes]:
    """Put `content` into a package, unpack it, and say what then lies anywhere in `folder`."""
    package = folder / "package"
    package.write_bytes(content)
    files = FILES if packing is Packing.TAR_GZIP else FILES[:1]
    try:
        for file, path in unpack(
            Package(package, packing, files, "THE ORIGIN"), folder / "a" / "b"
        ):
            assert path == folder / "a" / "b" / file.name
    finally:
        package.unlink()
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize(
    ("content", "packing"), [(FIRST, Packing.PLAIN), (gzip.compress(FIRST), Packing.GZIP)]
)
def test_a_single_file_comes_out_whole(tmp_path: Path, content: bytes, packing: Packing) -> None:
    assert unpacked(tmp_path, content, packing) == {"a/b/train/in.txt": FIRST}


def test_the_wanted_members_come_out_whatever_else_there_is(tmp_path: Path) -> None:
    """In any order, with "./" before them or not; names that lead elsewhere are left alone."""
    content = tar_of(
        ("../escaped.txt", b"x"),
        (str(tmp_path / "absolute.txt"), b"x"),
        ("./set/out.txt", SECOND),
        ("set/vocabs", b"x"),
        ("set/in.txt", FIRST),
    )
    assert unpacked(tmp_path, content, Packing.TAR_GZIP) == {
        "a/b/train/in.txt": FIRST,
        "a/b/train/out.txt": SECOND,
    }


def damaged(content: bytes) -> bytes:
    """Gzipped, with one bit of its checksum changed."""
    packed = bytearray(gzip.compress(content))
    packed[-6] ^= 1
    return bytes(packed)


@pytest.mark.parametrize(
    ("content", "packing", "message"),
    [
        (damaged(FIRST), Packing.GZIP, "not a sound gzip file: CRC check failed"),
        (gzip.compress(FIRST)[:-12], Packing.GZIP, "not a sound gzip file: Compressed file ended"),
        (gzip.compress(FIRST)[:12] + b"\xff" * 20, Packing.GZIP, "not a sound gzip file"),
        (FIRST, Packing.GZIP, "not a sound gzip file: Not a gzipped file"),
        (b"", Packing.TAR_GZIP, "not a sound tar.gz file"),
        (FIRST, Packing.TAR_GZIP, "not a sound tar.gz file"),
        (gzip.compress(FIRST), Packing.TAR_GZIP, "not a sound tar.gz file"),
        (tar_of(("set/in.txt", FIRST))[:40], Packing.TAR_GZIP, "not a sound tar.gz file"),
        (tar_of(("set/in.txt", FIRST)), Packing.TAR_GZIP, "has no set/out.txt"),
        (tar_of(("../set/in.txt", FIRST)), Packing.TAR_GZIP, "has no set/in.txt, set/out.txt"),
    ],
)
def test_a_bad_package_is_named_by_its_origin(
    tmp_path: Path, content: bytes, packing: Packing, message: str
) -> None:
    with pytest.raises(CorpusError) as caught:
        unpacked(tmp_path, content, packing)
    assert str(caught.value).startswith(f"THE ORIGIN: {message}")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE])
def test_links_and_folders_in_an_archive_are_not_files(tmp_path: Path, kind: bytes) -> None:
    content = link_of("set/in.txt", "/etc/passwd", kind)
    with pytest.raises(CorpusError, match=r"has no set/in\.txt"):
        unpacked(tmp_path, content, Packing.TAR_GZIP)


def test_a_package_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    package = Package(tmp_path / "none", Packing.PLAIN, FILES[:1], "THE ORIGIN")
    with pytest.raises(CorpusError, match="THE ORIGIN: cannot read: No such file"):
        list(unpack(package, tmp_path))


def test_a_place_that_cannot_be_written_is_not_blamed_on_the_package(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(UserError, match=r"train/in\.txt: cannot write") as caught:
        unpacked(tmp_path, FIRST, Packing.PLAIN)
    assert not isinstance(caught.value, CorpusError)
