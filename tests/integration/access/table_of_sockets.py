"""Who may listen at which WebSocket. How to write a line: ``access_table.py``; a socket is opened by ``get``."""

from __future__ import annotations

from access_table import VIEWER, at

SOCKETS = (at("ws/jobs/<uuid:job_id>/", get=VIEWER),)
