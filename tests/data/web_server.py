"""A small web server with adjustable behavior."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Behavior:
    """What the server has and how it answers; ``requests`` are the paths it was asked for."""

    files: dict[str, bytes] = field(default_factory=dict)
    content_type: str = "application/octet-stream"
    is_chunked: bool = False
    length: str = ""
    redirect: str = ""
    sends_at_most: int | None = None
    requests: list[str] = field(default_factory=list)
    address: str = ""


class _Handler(BaseHTTPRequestHandler):
    behavior: Behavior
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        behavior = self.behavior
        behavior.requests.append(self.path)
        self.close_connection = True
        content = behavior.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        self.send_response(302 if behavior.redirect else 200)
        if behavior.redirect:
            self.send_header("Location", behavior.redirect)
        self.send_header("Content-Type", behavior.content_type)
        body = content[: behavior.sends_at_most]
        if behavior.is_chunked:
            self.send_header("Transfer-Encoding", "chunked")
            # Without the last, empty chunk the answer is incomplete.
            end = b"" if behavior.sends_at_most else b"0\r\n\r\n"
            body = b"%x\r\n%b\r\n" % (len(body), body) + end
        else:
            self.send_header("Content-Length", behavior.length or str(len(content)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving() -> Iterator[Behavior]:
    """Runs a server on a free port."""
    behavior = Behavior()
    handler = type("Handler", (_Handler,), {"behavior": behavior})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as httpd:
        behavior.address = f"http://127.0.0.1:{httpd.server_address[1]}"
        thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield behavior
        finally:
            httpd.shutdown()
            thread.join()
