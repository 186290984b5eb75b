"""The client: one object for one server, with the things it holds as attributes."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import httpx

from tuneyard.catalog import BaseModels, Datasets, Projects, Rewards
from tuneyard.errors import ConfigurationError
from tuneyard.http import Http
from tuneyard.jobs import Jobs
from tuneyard.models import Models
from tuneyard.settings import resolve


class Client:
    """Talks to one server with one token.

    What is not given comes from ``TUNEYARD_URL``, ``TUNEYARD_TOKEN`` and ``TUNEYARD_PROJECT``, else from what
    ``tuneyard login`` saved. ``project`` is a name or an id; it may be left out where the workspace has one project.
    Answers are plain dicts, as the REST API documents them.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        project: str | None = None,
        *,
        timeout: float = 30.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        connection = resolve(url, token, project)
        self.url = connection.url
        self.project = connection.project
        self.http = Http(connection, timeout=timeout, transport=transport)
        self._project_ids: dict[str, str] = {}
        self.projects = Projects(self)
        self.datasets = Datasets(self)
        self.rewards = Rewards(self)
        self.base_models = BaseModels(self)
        self.jobs = Jobs(self)
        self.models = Models(self)

    def me(self) -> dict[str, Any]:
        """Who this token belongs to: user, workspace, role, and the server's version."""
        answer: dict[str, Any] = self.http.get("/me")
        return answer

    def project_id(self, project: str | None = None) -> str:
        """The id of a project given by name or id, or of the client's own.

        Raises :class:`ConfigurationError` when no project is named and there is not exactly one.
        """
        wanted = project or self.project
        if wanted not in self._project_ids:
            self._project_ids[wanted] = self._find_project(wanted)
        return self._project_ids[wanted]

    def _find_project(self, wanted: str) -> str:
        known = self.projects.list()
        if not wanted:
            if len(known) == 1:
                return str(known[0]["id"])
            if not known:
                raise ConfigurationError("The workspace has no project yet: `tuneyard projects create NAME`.")
            raise ConfigurationError(
                f"Say which project: --project, TUNEYARD_PROJECT, or Client(project=...). There are: {_names(known)}."
            )
        for item in known:
            if wanted == item["id"] or wanted.lower() == item["name"].lower():
                return str(item["id"])
        raise ConfigurationError(f"There is no project {wanted!r}. There are: {_names(known) or 'none'}.")

    def close(self) -> None:
        self.http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.url!r})"


def _names(projects: list[dict[str, Any]]) -> str:
    return ", ".join(str(item["name"]) for item in projects)
