"""The folder in which mails end where no mail server is configured, read back for the operator."""

from __future__ import annotations

import email
import email.policy
import re
from datetime import timedelta
from email.message import EmailMessage
from pathlib import Path

from django.conf import settings

from delivery.models import Message

# Django's file backend writes the mails of one connection into one file, each followed by such a line.
BETWEEN = re.compile(rb"^-{79}\n", re.MULTILINE)
LARGEST = 4 * 1024 * 1024


def in_folder() -> bool:
    """Whether mails become files here, because there is no mail server."""
    return str(settings.EMAIL_BACKEND).endswith("filebased.EmailBackend")


def text_of(message: Message) -> str | None:
    """The text of a message that has left into the folder; None when no file there has it."""
    if not in_folder() or message.sent_at is None:
        return None
    wanted = f"<{message.pk}@"
    for path in _files_around(message):
        if path.stat().st_size > LARGEST:
            continue
        for part in BETWEEN.split(path.read_bytes()):
            # The parts of a large file are told apart before any is parsed.
            if wanted.encode() not in part:
                continue
            mail = email.message_from_bytes(part, policy=email.policy.default)
            if isinstance(mail, EmailMessage) and str(mail["Message-ID"]).startswith(wanted):
                body = mail.get_body(("plain",))
                return str(body.get_content()) if body is not None else ""
    return None


def _files_around(message: Message) -> list[Path]:
    """The files of the days on which it can have left, the day before and after for the clock's zone included."""
    assert message.sent_at is not None
    days = {f"{message.sent_at + timedelta(days=shift):%Y%m%d}" for shift in (-1, 0, 1)}
    folder = Path(settings.EMAIL_FILE_PATH)
    return sorted((path for path in folder.glob("*.log") if path.name[:8] in days), reverse=True)
