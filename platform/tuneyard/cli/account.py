"""login, logout, whoami, projects."""

from __future__ import annotations

import argparse
import getpass
import sys

from tuneyard import settings
from tuneyard.cli.show import as_json, client_of, say, table, warn
from tuneyard.client import Client
from tuneyard.errors import ConfigurationError

DEFAULT_URL = "http://127.0.0.1:8000"


def login(arguments: argparse.Namespace) -> None:
    """Ask for address and token, try them, and save them only if the server takes them."""
    url = settings.normalize_url(arguments.url or _ask_url())
    if not settings.is_loopback(url) and url.startswith("http://"):
        warn("The address is plain http: the token and your data travel unencrypted. Use https where you can.")
    if arguments.token_stdin:
        token = sys.stdin.readline().strip()
    else:
        _needs_terminal()
        token = getpass.getpass("Token (begins with tml-; make one on the server's page 'API tokens'): ").strip()
    if not token:
        raise ConfigurationError("No token was given; nothing was saved.")
    with Client(url=url, token=token, project=arguments.project or None) as client:
        me = client.me()
        if arguments.project:
            client.project_id()
    path = settings.save(settings.Connection(url, token, arguments.project))
    say(f"Logged in to {url} as {me['user']['email']}, {me['role']} of {me['workspace']['name']}. Saved in {path}.")


def _ask_url() -> str:
    _needs_terminal()
    return input(f"Address of the server [{DEFAULT_URL}]: ").strip() or DEFAULT_URL


def _needs_terminal() -> None:
    if not sys.stdin.isatty():
        raise ConfigurationError("There is no terminal to ask on: `tuneyard login URL --token-stdin < token-file`.")


def logout(arguments: argparse.Namespace) -> None:
    if settings.forget():
        say("Forgotten here. The token itself stays valid until it is revoked on the page 'API tokens'.")
    else:
        say("Nothing was saved.")


def whoami(arguments: argparse.Namespace) -> None:
    with client_of(arguments) as client:
        me = client.me()
        if arguments.json:
            as_json(me)
            return
        say(f"{me['user']['email']}, {me['role']} of the workspace {me['workspace']['name']}")
        say(f"server {client.url}, version {me['server']['version']}")
        expires = me["token"]["expires_at"]
        until = f"valid until {expires}" if expires else "without end"
        say(f"token {me['token']['prefix']}… “{me['token']['name']}”, {until}")


def projects(arguments: argparse.Namespace) -> None:
    with client_of(arguments) as client:
        found = client.projects.list()
    if arguments.json:
        as_json(found)
        return
    rows = ([item["name"], item["id"], item["description"]] for item in found)
    table(["project", "id", "description"], rows, "No project yet: `tuneyard projects create NAME`.")


def create_project(arguments: argparse.Namespace) -> None:
    with client_of(arguments) as client:
        made = client.projects.create(arguments.name, arguments.description)
    if arguments.json:
        as_json(made)
    else:
        say(f"Project “{made['name']}” made: {made['id']}")
