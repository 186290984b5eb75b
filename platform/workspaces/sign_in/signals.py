"""What follows from events of people and their sign-in: an address noted, a line in the audit log."""

from __future__ import annotations

from typing import Any

from allauth.account.signals import email_changed, password_changed, password_reset, user_logged_in
from allauth.mfa.signals import authenticator_added, authenticator_removed, authenticator_reset
from django.db.models.signals import post_save
from django.dispatch import receiver

from workspaces.live import access_changed
from workspaces.models import User
from workspaces.sign_in import people


@receiver(post_save, sender=User)
def person_made(instance: User, created: bool, raw: bool, **kwargs: Any) -> None:
    """Whoever signs up gets the address noted, unproven, by the steps that follow; others are known to their maker."""
    if created and not raw and not getattr(instance, "address_follows", False):
        people.address_ensure(user=instance)
    if not created and not instance.is_active:
        # Their pages end at the next request by themselves; what is open ends now.
        access_changed([instance.pk])


@receiver(user_logged_in)
def signed_in(request: Any, user: User, **kwargs: Any) -> None:
    people.note(user, "user.sign-in", address=request.META.get("REMOTE_ADDR", ""))


@receiver(password_changed)
@receiver(password_reset)
def new_password(user: User, **kwargs: Any) -> None:
    """Sessions ended with the old password; so must what they had open."""
    people.note(user, "user.password")
    access_changed([user.pk])


@receiver(email_changed)
def new_address(user: User, from_email_address: Any, to_email_address: Any, **kwargs: Any) -> None:
    people.note(user, "user.email", before=getattr(from_email_address, "email", ""), after=to_email_address.email)


@receiver(authenticator_added)
def factor_added(user: User, authenticator: Any, **kwargs: Any) -> None:
    people.note(user, "user.factor.add", kind=authenticator.type)


@receiver(authenticator_removed)
def factor_removed(user: User, authenticator: Any, **kwargs: Any) -> None:
    people.note(user, "user.factor.remove", kind=authenticator.type)
    access_changed([user.pk])


@receiver(authenticator_reset)
def codes_made(user: User, **kwargs: Any) -> None:
    people.note(user, "user.factor.codes")
