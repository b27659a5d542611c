"""A small web server that behaves as it is told to."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Behaviour:
    """What the server has and how it answers.

    `requests` is what it was asked, as paths and ranges; `sent` the bytes of each answer.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    accepts_ranges: bool = True
    etag: str = '"version 1"'
    content_type: str = "application/octet-stream"
    is_chunked: bool = False
    sends_at_most: int | None = None
    range_shift: int = 0
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    address: str = ""


class _Handler(BaseHTTPRequestHandler):
    behaviour: Behaviour
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        behaviour = self.behaviour
        asked = self.headers.get("Range")
        behaviour.requests.append((self.path, asked))
        self.close_connection = True
        content = behaviour.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        start = 0
        expected = self.headers.get("If-Range")
        # As RFC 9110 has it: a weak tag never proves that the file is the same.
        is_same = expected is None or (expected == behaviour.etag and expected[0] == '"')
        if asked and behaviour.accepts_ranges and is_same:
            start = int(asked.removeprefix("bytes=").removesuffix("-")) + behaviour.range_shift
            if start >= len(content):
                self.send_error(416)
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        self.send_header("Content-Type", behaviour.content_type)
        if behaviour.etag:
            self.send_header("ETag", behaviour.etag)
        body = content[start:][: behaviour.sends_at_most]
        behaviour.sent.append(len(body))
        if behaviour.is_chunked:
            self.send_header("Transfer-Encoding", "chunked")
            # Without the last, empty chunk the answer is cut off.
            end = b"" if behaviour.sends_at_most else b"0\r\n\r\n"
            body = b"%x\r\n%b\r\n" % (len(body), body) + end
        else:
            self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving() -> Iterator[Behaviour]:
    """Run a server on a free port of this machine."""
    behaviour = Behaviour()
    handler = type("Handler", (_Handler,), {"behaviour": behaviour})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as httpd:
        behaviour.address = f"http://127.0.0.1:{httpd.server_address[1]}"
        thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield behaviour
        finally:
            httpd.shutdown()
            thread.join()
