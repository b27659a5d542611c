"""``serve``: the three applications on a web page."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import click

from transformer_suite.core.errors import UserError
from transformer_suite.tasks.commands.options import PATH, machine_options, use_threads


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="0.0.0.0 serves the network.")
@click.option("--port", type=click.IntRange(1, 65535), default=8000, show_default=True)
@click.option("--translation", type=PATH, metavar="FOLDER", help="Another translation model.")
@click.option("--classification", type=PATH, metavar="FOLDER", help="Another classifier.")
@click.option("--couplet", type=PATH, metavar="FOLDER", help="Another couplet model.")
@machine_options
def serve(host: str, port: int, device: str, threads: int | None, **models: Path | None) -> None:
    """Serve the three applications on a web page, and as JSON at /api/TASK."""
    use_threads(threads)
    if find_spec("flask") is None or find_spec("waitress") is None:
        raise UserError("the web server is not installed: pip install 'transformer-suite[web]'")
    from transformer_suite.tasks.web import server

    click.echo(f"http://{host}:{port}/  (Ctrl-C ends it)", err=True)
    server.serve(models, host=host, port=port, device=device)
