"""Describe a training task, submit it to a Tuneyard server, watch it, fetch the model.

>>> from tuneyard import RLTask, submit_to_platform
>>> task = RLTask(env_config={"dataset_path": "math_problems.json"}, loss_fn="cross_entropy")
>>> submit_to_platform(task)  # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tuneyard.client import Client as Client
    from tuneyard.errors import ApiError as ApiError
    from tuneyard.errors import AuthenticationError as AuthenticationError
    from tuneyard.errors import ConfigurationError as ConfigurationError
    from tuneyard.errors import Conflict as Conflict
    from tuneyard.errors import ConnectionFailed as ConnectionFailed
    from tuneyard.errors import DownloadError as DownloadError
    from tuneyard.errors import InvalidRequest as InvalidRequest
    from tuneyard.errors import JobFailed as JobFailed
    from tuneyard.errors import NotFound as NotFound
    from tuneyard.errors import PermissionDenied as PermissionDenied
    from tuneyard.errors import RateLimited as RateLimited
    from tuneyard.errors import ServerError as ServerError
    from tuneyard.errors import TaskError as TaskError
    from tuneyard.errors import TuneyardError as TuneyardError
    from tuneyard.jobs import JobHandle as JobHandle
    from tuneyard.submit import submit_to_platform as submit_to_platform
    from tuneyard.task import RLTask as RLTask

__version__ = "0.1.0"

# Where each name lives; loaded when first used, so that the command line starts without httpx and rich.
_HOMES = {
    "Client": "client",
    "JobHandle": "jobs",
    "RLTask": "task",
    "submit_to_platform": "submit",
    **dict.fromkeys(
        (
            "ApiError",
            "AuthenticationError",
            "ConfigurationError",
            "Conflict",
            "ConnectionFailed",
            "DownloadError",
            "InvalidRequest",
            "JobFailed",
            "NotFound",
            "PermissionDenied",
            "RateLimited",
            "ServerError",
            "TaskError",
            "TuneyardError",
        ),
        "errors",
    ),
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'tuneyard' has no attribute {name!r}")
    return getattr(import_module(f"tuneyard.{home}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
