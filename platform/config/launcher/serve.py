"""Serve the site on a socket that the launcher has bound: a restart of the web part keeps the port and its backlog.

Run as ``python -m config.launcher.serve FD``.
"""

from __future__ import annotations

import socket
import sys

import uvicorn


def main(descriptor: int) -> None:
    listener = socket.socket(fileno=descriptor)
    config = uvicorn.Config(
        "config.asgi:application",
        access_log=False,
        log_config=None,
        lifespan="off",
        timeout_graceful_shutdown=2,
        server_header=False,
    )
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main(int(sys.argv[1]))
