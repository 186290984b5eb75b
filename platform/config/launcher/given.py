"""Parts that run elsewhere: an address in the environment replaces an embedded part, and must answer at the start."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

import environ
import fsspec
import psycopg
import redis

from config.launcher.problems import Problem
from config.launcher.ray import alive_nodes

OLDEST_POSTGRES = 14
_CONNECTION = {"host": "HOST", "port": "PORT", "user": "USER", "password": "PASSWORD", "dbname": "NAME"}


def database(url: str) -> str:
    """The version of the Postgres server at a DATABASE_URL.

    Raises:
        Problem: it is not a Postgres address, nobody answers, or the server is too old.
    """
    try:
        config = environ.Env.db_url_config(url)
    except Exception as error:
        raise Problem(
            f"DATABASE_URL cannot be read: {error}. Expected: postgres://USER:PASSWORD@HOST:5432/NAME"
        ) from error
    if config.get("ENGINE") != "django.db.backends.postgresql":
        raise Problem("DATABASE_URL must name a Postgres database: postgres://USER:PASSWORD@HOST:5432/NAME")
    try:
        with psycopg.connect(
            **{key: config[name] for key, name in _CONNECTION.items() if config.get(name)},
            **{"connect_timeout": 5, **config.get("OPTIONS", {})},
        ) as connection:
            version = connection.info.server_version
    except psycopg.Error as error:
        said = " ".join(str(error).split())
        raise Problem(
            f"The database in DATABASE_URL ({place(url)}) cannot be reached: {said}. "
            f"Correct the address, or unset DATABASE_URL to use the embedded Postgres."
        ) from error
    if version // 10000 < OLDEST_POSTGRES:
        raise Problem(
            f"The database in DATABASE_URL is Postgres {version // 10000}; {OLDEST_POSTGRES} or newer is needed."
        )
    return f"PostgreSQL {version // 10000}.{version % 10000}"


def broker(url: str) -> str:
    try:
        with redis.Redis.from_url(url, socket_timeout=5, socket_connect_timeout=5) as client:
            client.ping()
    except (redis.RedisError, ValueError, OSError) as error:
        raise Problem(
            f"The Redis or Valkey in REDIS_URL ({place(url)}) cannot be reached: {error}. "
            f"Correct the address, or unset REDIS_URL to use the embedded Valkey."
        ) from error
    return ""


def ray(address: str) -> str:
    if not re.fullmatch(r".+:\d{1,5}", address) or "://" in address:
        raise Problem(f"RAY_ADDRESS must be the address of the cluster's head as HOST:PORT, not {address!r}.")
    try:
        count = alive_nodes(address)
    except Exception as error:
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise Problem(
            f"The Ray cluster in RAY_ADDRESS ({address}) cannot be reached: {said}. "
            f"Correct the address, or unset RAY_ADDRESS to use a Ray head on this machine."
        ) from error
    return f"{count} node{'s' if count != 1 else ''}"


def storage(url: str) -> str:
    scheme = urlsplit(url).scheme or "file"
    try:
        fsspec.get_filesystem_class(scheme)
    except (ValueError, ImportError) as error:
        raise Problem(f"STORAGE_URL ({place(url)}) names a kind of storage that cannot be used: {error}") from error
    return ""


def mail(url: str) -> str:
    try:
        environ.Env.email_url_config(url)
    except Exception as error:
        raise Problem(f"EMAIL_URL cannot be read: {error}. Expected: smtp+tls://USER:PASSWORD@HOST:587") from error
    return ""


CHECKS = {
    "DATABASE_URL": ("postgres", database),
    "REDIS_URL": ("valkey", broker),
    "RAY_ADDRESS": ("ray", ray),
    "STORAGE_URL": ("storage", storage),
    "EMAIL_URL": ("mail", mail),
}


def check(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """Try every address the environment gives; (part, detail) of each, in a fixed order."""
    found = []
    for name, (part, probe) in CHECKS.items():
        if url := environment.get(name):
            detail = probe(url)
            found.append((part, f"{place(url)}{f', {detail}' if detail else ''}"))
    return found


def place(url: str) -> str:
    """An address without its user, password and options, fit for a terminal."""
    parts = urlsplit(url if "://" in url else f"//{url}")
    where = parts.hostname or ""
    return f"{where}{f':{parts.port}' if parts.port else ''}{parts.path}" or url
