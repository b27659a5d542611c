"""Three small corpora, published as the real ones are, and what a corpus folder holds."""

import gzip
import hashlib
import io
import tarfile
from collections.abc import Sequence
from pathlib import Path

from data.corpora import Corpus, CorpusFile
from data.fetching import FileReport
from tests.data.web_server import Behavior

GERMAN = b"ein Hund\nzwei Hunde\n"
ENGLISH = b"a dog\ntwo dogs\n"
NEWS = b'"1","Title","Text"\n"2","","More"\n'


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def tar_of(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


TAR = tar_of({"./set/in.txt": GERMAN, "set/vocabs": b"x", "set/out.txt": ENGLISH})


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below `folder`."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def notes(reports: Sequence[FileReport]) -> dict[str, str]:
    return {file.name: file.note for file in reports}


def small_corpus(*files: CorpusFile, accepts_subset: bool) -> Corpus:
    return Corpus(
        name="small",
        title="A small corpus",
        task="translation",
        license="none",
        citation="none",
        homepage="http://localhost",
        files=files,
        accepts_subset=accepts_subset,
    )


def publish_captions(server: Behavior) -> Corpus:
    """Gzipped files, their checksums known, as Multi30k has them."""
    files = []
    for language, content in (("de", GERMAN), ("en", ENGLISH)):
        server.files[f"/train.{language}.gz"] = gzip.compress(content)
        files.append(
            CorpusFile(
                name=f"train.{language}",
                rows=2,
                sha256=sha256(content),
                url=f"{server.address}/train.{language}.gz",
            )
        )
    return small_corpus(*files, accepts_subset=False)


def publish_news(server: Behavior) -> Corpus:
    """A plain file, its checksum known."""
    server.files["/train.csv"] = NEWS
    url = f"{server.address}/train.csv"
    file = CorpusFile(name="train.csv", rows=2, sha256=sha256(NEWS), url=url)
    return small_corpus(file, accepts_subset=True)


def publish_couplets(server: Behavior) -> Corpus:
    """Members of one archive, their checksums unknown, and a file that is not published."""
    server.files["/set.tar.gz"] = TAR
    published = [
        CorpusFile(
            name=f"train/{side}.txt",
            rows=2,
            url=f"{server.address}/set.tar.gz",
            member=f"set/{side}.txt",
        )
        for side in ("in", "out")
    ]
    extra = CorpusFile(name="val/in.txt", is_required=False)
    return small_corpus(*published, extra, accepts_subset=True)
