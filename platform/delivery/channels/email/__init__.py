"""Mail through Django's mail backend, which ``EMAIL_URL`` chooses."""

from __future__ import annotations

from django.core.mail import EmailMultiAlternatives

from delivery.models import Message


class EmailChannel:
    def send(self, message: Message) -> None:
        mail = EmailMultiAlternatives(
            subject=message.subject,
            body=message.text,
            to=[message.recipient],
            # A mail server that got it twice after a lost answer shows it once.
            headers={"Message-ID": f"<{message.pk}@tuneyard>", "Auto-Submitted": "auto-generated"},
        )
        if message.html:
            mail.attach_alternative(message.html, "text/html")
        mail.send()
