"""Where django-allauth meets the rest: mails go to the outbox, keys of authenticators are sealed, words are ours."""

from __future__ import annotations

import logging
import uuid
from typing import Any, cast

from allauth.account.adapter import DefaultAccountAdapter
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.conf import settings
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from delivery import wake
from delivery.sealing import seal, unseal
from delivery.services import message_enqueue
from workspaces import limits
from workspaces.models import User
from workspaces.sign_in import people, words

logger = logging.getLogger(__name__)


class AccountAdapter(DefaultAccountAdapter):
    error_messages = DefaultAccountAdapter.error_messages | {
        "too_many_login_attempts": gettext_lazy("Too many attempts. Wait a minute, then try again."),
        "incorrect_password": gettext_lazy("This is not your password."),
        "incorrect_code": gettext_lazy("This code is not right, or it has expired."),
        "invalid_password_reset": gettext_lazy("This link was used already, or it has expired. Ask for a new one."),
        "email_taken": gettext_lazy("This address cannot be used. Choose another one."),
        "same_as_current": gettext_lazy("This is your address already."),
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return bool(settings.SIGN_UP.possible)

    def save_user(self, request: HttpRequest, user: Any, form: Any, commit: bool = True) -> Any:
        """A person who signed up by themselves: the address is theirs only once they have opened the mail."""
        user.name = " ".join(form.cleaned_data.get("name", "").split())
        user.address_follows = True
        with transaction.atomic():
            made = super().save_user(request, user, form, commit)
            people.note(made, "user.sign-up")
        return made

    def add_message(
        self,
        request: HttpRequest,
        level: int,
        message_template: str | None = None,
        message_context: dict[str, Any] | None = None,
        extra_tags: str = "",
        message: str | None = None,
    ) -> None:
        """Say what the page does not say itself, in our words; most of what the library would say it does."""
        text = message or words.MESSAGES.get(message_template or "")
        if text:
            messages.add_message(request, level, str(text), extra_tags=extra_tags)

    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        """Put one of our mails into the outbox, sealed, as most carry a key. One address gets a few an hour at most."""
        if not limits.take(limits.ACCOUNT_MAIL, email.lower()):
            logger.warning("no further mail of %s to %s within the hour", template_prefix, email)
            return
        subject, template = words.MAILS[template_prefix]
        data = context | {"email": email, "home": settings.PUBLIC_URL, "hours": settings.PASSWORD_RESET_TIMEOUT // 3600}
        self._enqueue(email, str(subject), template, data, private=True)

    def send_notification_mail(
        self, template_prefix: str, user: Any, context: dict[str, Any] | None = None, email: str | None = None
    ) -> None:
        """Tell a person that something about their sign-in has changed, so that they notice if it was not they."""
        what = words.NOTICES.get(template_prefix)
        if what is not None:
            data = {"what": what, "home": settings.PUBLIC_URL, "security": settings.PUBLIC_URL + reverse("security")}
            subject = _("Your sign-in to Tuneyard has changed")
            self._enqueue(email or user.email, subject, "notice", data | (context or {}), private=False)

    def _enqueue(self, email: str, subject: str, template: str, data: dict[str, Any], *, private: bool) -> None:
        with transaction.atomic():
            message_enqueue(
                key=f"account:{uuid.uuid4()}",
                recipient=email,
                subject=subject,
                text=render_to_string(f"mail/account/{template}.txt", data),
                private=private,
            )
            transaction.on_commit(wake.mail_waiting, robust=True)

    # Links lead to the address people use, whatever the Host header of the request that asked for the mail said.

    def get_reset_password_from_key_url(self, key: str) -> str:
        uid, _dash, token = key.partition("-")
        return str(settings.PUBLIC_URL) + reverse("account_reset_password_from_key", args=[uid, token])

    def get_email_confirmation_url(self, request: HttpRequest, emailconfirmation: Any) -> str:
        return str(settings.PUBLIC_URL) + reverse("account_confirm_email", args=[emailconfirmation.key])

    def get_email_verification_redirect_url(self, email_address: Any) -> str:
        return reverse("security") if self.request.user.is_authenticated else reverse("sign-in")

    def get_password_change_redirect_url(self, request: HttpRequest) -> str:
        return reverse("security")

    def respond_user_inactive(self, request: HttpRequest, user: Any) -> HttpResponse:
        messages.error(request, _("This account is disabled. Ask whoever runs this installation."))
        return redirect("sign-in")

    def get_client_ip(self, request: HttpRequest) -> str:
        """The peer's address; behind a unix socket there is none to know."""
        return request.META.get("REMOTE_ADDR") or "0.0.0.0"


class FactorsAdapter(DefaultMFAAdapter):
    error_messages = DefaultMFAAdapter.error_messages | {
        "incorrect_code": gettext_lazy("This code is not right, or it has expired."),
        "unverified_email": gettext_lazy("Open the link in the mail we sent to your address first."),
    }

    def encrypt(self, text: str) -> str:
        return seal(text)

    def decrypt(self, encrypted_text: str) -> str:
        return unseal(encrypted_text)

    def generate_authenticator_name(self, user: Any, type: Any) -> str:
        return _("Passkey")

    def get_public_key_credential_rp_entity(self) -> dict[str, str]:
        return super().get_public_key_credential_rp_entity() | {"name": "Tuneyard"}


class SsoAdapter(DefaultSocialAccountAdapter):
    def pre_social_login(self, request: HttpRequest, sociallogin: Any) -> None:
        """Let in only people with an address that the provider has verified and this installation allows."""
        sso = settings.OIDC
        address = next((item for item in sociallogin.email_addresses if item.verified), None)
        if sso is None:
            raise ImmediateHttpResponse(refused(request, _("Single sign-on is not set up here.")))
        if address is None:
            raise ImmediateHttpResponse(
                refused(request, _("%(name)s does not say that your e-mail address is verified.") % {"name": sso.name})
            )
        if not sso.allows(address.email):
            raise ImmediateHttpResponse(
                refused(request, _("Addresses like %(email)s cannot sign in here.") % {"email": address.email})
            )

    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        if settings.OIDC is not None and settings.OIDC.new_people:
            return True
        raise ImmediateHttpResponse(
            refused(request, _("You have no account here yet. Ask an admin of your team for an invitation."))
        )

    def populate_user(self, request: HttpRequest, sociallogin: Any, data: dict[str, Any]) -> Any:
        user = sociallogin.user
        user.email = str(data.get("email") or "").strip()
        both = f"{data.get('first_name') or ''} {data.get('last_name') or ''}"
        user.name = " ".join(str(data.get("name") or both).split())[:150]
        return user

    def save_user(self, request: HttpRequest, sociallogin: Any, form: Any = None) -> Any:
        sociallogin.user.address_follows = True
        with transaction.atomic():
            user = super().save_user(request, sociallogin, form)
            people.person_from_sso(user=cast("User", user), provider=sociallogin.account.provider)
        return user

    def on_authentication_error(
        self,
        request: HttpRequest,
        provider: Any,
        error: Any = None,
        exception: Exception | None = None,
        extra_context: dict[str, Any] | None = None,
    ) -> None:
        logger.warning("single sign-on failed: %s", exception or error)
        text = _("%(name)s did not confirm who you are. Try again.") % {"name": provider.name}
        raise ImmediateHttpResponse(refused(request, text))


def refused(request: HttpRequest, text: str) -> HttpResponse:
    """The page that says why single sign-on did not let someone in."""
    return render(request, "workspaces/sign_in/refused.html", {"text": text}, status=403)
