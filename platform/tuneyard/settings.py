"""Where the server is and who we are: from arguments, the environment, or the file that ``tuneyard login`` writes."""

from __future__ import annotations

import json
import os
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tuneyard.errors import ConfigurationError


@dataclass(frozen=True)
class Connection:
    """The address of a server, a token for it, and the project to work in (name or id; may be empty)."""

    url: str
    token: str
    project: str = ""


def config_path() -> Path:
    """``$XDG_CONFIG_HOME/tuneyard/config.json``, normally ``~/.config/tuneyard/config.json``."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "tuneyard" / "config.json"


def resolve(url: str | None = None, token: str | None = None, project: str | None = None) -> Connection:
    """Settle the connection: an argument wins over the environment, the environment over the saved file.

    The saved token is used only for the address it was saved with, so it never reaches another server. Raises
    :class:`ConfigurationError` when no address or no token is known.
    """
    saved = load()
    found_url = normalize_url(url or os.environ.get("TUNEYARD_URL") or saved.get("url", ""))
    if not found_url:
        raise ConfigurationError("No server is known: run `tuneyard login`, set TUNEYARD_URL, or pass Client(url=...).")
    same_server = found_url == saved.get("url", "")
    found_token = token or os.environ.get("TUNEYARD_TOKEN") or (saved.get("token", "") if same_server else "")
    found_token = found_token.strip()
    if not found_token:
        raise ConfigurationError(
            f"No token is known for {found_url}: make one on its page 'API tokens', then run `tuneyard login` or set "
            "TUNEYARD_TOKEN."
        )
    if not found_token.isascii() or not found_token.isprintable() or " " in found_token:
        raise ConfigurationError("The token has characters that no token has; copy it again, it begins with tml-.")
    found_project = project or os.environ.get("TUNEYARD_PROJECT") or (saved.get("project", "") if same_server else "")
    return Connection(found_url, found_token, found_project)


def normalize_url(text: str) -> str:
    """The address without a trailing slash; ``host:port`` gets ``http://``. Raises for what is no web address."""
    text = text.strip()
    if not text:
        return ""
    if "://" not in text:
        text = f"http://{text}"
    text = text.rstrip("/")
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable:
        raise ConfigurationError(f"{text!r} is not a web address; write it like https://tuneyard.example.org.")
    return text


def is_loopback(url: str) -> bool:
    """Whether the address is this machine: then no proxy is asked and plain http is fine."""
    host = urlsplit(url).hostname or ""
    return host == "localhost" or host.endswith(".localhost") or host == "::1" or host.startswith("127.")


def load() -> dict[str, str]:
    """What ``tuneyard login`` saved; empty when nothing was."""
    path = config_path()
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be read ({error}); delete it and run `tuneyard login`.") from None
    if not isinstance(value, dict):
        raise ConfigurationError(f"{path} does not hold a JSON object; delete it and run `tuneyard login`.")
    return {key: item for key, item in value.items() if isinstance(item, str)}


def save(connection: Connection) -> Path:
    """Write the connection to the file, readable by its owner alone, whole or not at all."""
    path = config_path()
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    text = json.dumps({"url": connection.url, "token": connection.token, "project": connection.project}, indent=2)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # The file is born private: there is no instant in which others could open it.
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text + "\n")
        draft.replace(path)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        raise ConfigurationError(f"{path} cannot be written: {error.strerror or error}.") from None
    return path


def forget() -> bool:
    """Remove the saved connection; False when there was none."""
    try:
        config_path().unlink()
    except FileNotFoundError:
        return False
    return True
