"""``serve``: the three applications on a web page, and for programs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from core.errors import ConfigError
from tasks.commands import parameters
from tasks.commands.options import PATH, option_names, require_packages, take_given, use_threads
from tasks.task import TASKS
from tasks.web.config import ServiceConfig, read_keys

# The kernels that a service keeps on a CPU. With the default of a thousand, its memory grows for
# hours: 400 batches of 1 to 16 sentences took it from 0.5 to 0.9 GB, now to 0.53, 8% slower.
_KERNELS = 128
_PACKAGES = ("fastapi", "uvicorn", "prometheus_client")


@click.command(context_settings={"show_default": True})
@click.option("--host", default="127.0.0.1", help="0.0.0.0 serves the network.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, help="0: any free port.")
@click.option("--translation", type=PATH, metavar="FOLDER", help="Another translation model.")
@click.option("--classification", type=PATH, metavar="FOLDER", help="Another classifier.")
@click.option("--couplet", type=PATH, metavar="FOLDER", help="Another couplet model.")
@click.option(
    "--only",
    type=click.Choice(TASKS),
    multiple=True,
    help="Serve this task alone; may be given several times.",
)
@parameters.from_fields(ServiceConfig, "", has_defaults=True)
@click.option(
    "--api-keys", type=PATH, help="A file of keys: requests need one, and each is a client."
)
@parameters.engine
@parameters.machine
def serve(
    host: str,
    port: int,
    only: tuple[str, ...],
    device: str,
    threads: int | None,
    api_keys: Path | None,
    **options: Any,
) -> None:
    """Serve the three applications on a web page, and for programs at /v1/.

    The page is at the address that is printed when the models are loaded. The interface for
    programs is described at /v1/docs; /translate, /languages and /detect are LibreTranslate's.

    Requests that arrive together are computed together. Ctrl-C and SIGTERM end the service when the
    accepted requests are answered. On a network, name the hosts that clients may ask for
    (--allowed-hosts), and put a reverse proxy with TLS in front.

    \b
        serve
        serve --translation runs/mine --only translation --port 9000
        serve --host 0.0.0.0 --allowed-hosts translate.example.org --api-keys keys.txt
    """
    use_threads(threads)
    require_packages(
        *_PACKAGES,
        otherwise="the web server is not installed: pip install 'transformer-suite[web]'",
    )
    from core.device import limit_kernel_caches
    from tasks.web.server import serve as serve_models

    limit_kernel_caches(_KERNELS)
    models = {task: options.pop(task) for task in TASKS}
    engine = take_given(options, "engine", "int8")
    with option_names():
        config = ServiceConfig(**options)
    if api_keys is not None:
        config = replace(config, api_keys=read_keys(api_keys))
    chosen = {task: models[task] for task in only or TASKS}
    for task in set(TASKS) - set(chosen):
        if models[task] is not None:
            raise ConfigError(f"--{task} names a model that --only leaves out")
    settings = {"translation": engine}
    with option_names():
        serve_models(chosen, config, host=host, port=port, device=device, settings=settings)
