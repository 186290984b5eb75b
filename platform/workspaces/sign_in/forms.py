"""The forms of signing in and of what a person sets about it, each with its limit on tries."""

from __future__ import annotations

from typing import Any

from allauth.account.forms import AddEmailForm, ReauthenticateForm, ResetPasswordForm, SignupForm
from allauth.core import context
from allauth.mfa.base.forms import AuthenticateForm
from allauth.mfa.base.forms import ReauthenticateForm as ReauthenticateByCodeForm
from allauth.mfa.totp.forms import ActivateTOTPForm
from django import forms
from django.conf import settings
from django.utils.translation import gettext_lazy as _

from workspaces import limits
from workspaces.limits import Limit
from workspaces.models import User
from workspaces.sign_in import people

TOO_MANY = _("Too many attempts. Wait a minute, then try again.")


def take(limit: Limit, subject: str) -> None:
    """Count one try. Raises ``ValidationError`` when there were too many."""
    if not limits.take(limit, subject):
        raise forms.ValidationError(TOO_MANY, code="limited")


def _plain(form: forms.BaseForm, **labels: Any) -> None:
    """Labels above the fields, nothing inside them."""
    for name, field in form.fields.items():
        field.widget.attrs.pop("placeholder", None)
        field.label = labels.get(name, field.label)


class SignUpForm(SignupForm):
    name = forms.CharField(label=_("Name"), max_length=150, required=False, help_text=_("How a team sees you."))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _plain(self, email=_("E-mail"), password1=_("Password"))
        self.fields["password1"].help_text = ""
        self.order_fields(["email", "name", "password1"])

    def clean_email(self) -> str:
        take(limits.SIGN_UP_BY_ADDRESS, context.request.META.get("REMOTE_ADDR", ""))
        email: str = super().clean_email()
        if not settings.SIGN_UP.allows(email):
            raise forms.ValidationError(
                _("Accounts are for addresses at %(domains)s.") % {"domains": ", ".join(settings.SIGN_UP.domains)}
            )
        return email


class ForgottenForm(ResetPasswordForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _plain(self, email=_("E-mail"))
        self.fields["email"].widget.attrs["autofocus"] = True

    def clean_email(self) -> str:
        take(limits.SIGN_IN_BY_ADDRESS, context.request.META.get("REMOTE_ADDR", ""))
        user = User.objects.filter(email__iexact=self.cleaned_data["email"], is_active=True).first()
        if user is not None:
            people.address_ensure(user=user)
        email: str = super().clean_email()
        return email


class PasswordAgainForm(ReauthenticateForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _plain(self, password=_("Password"))
        self.fields["password"].widget.attrs |= {"autocomplete": "current-password", "autofocus": True}

    def clean_password(self) -> str:
        subject = str(self.user.pk)
        take(limits.PASSWORD_AGAIN, subject)
        password: str = super().clean_password()
        limits.give_back(limits.PASSWORD_AGAIN, subject)
        return password


class NewAddressForm(AddEmailForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _plain(self, email=_("New e-mail address"))


class _LimitedCode:
    """Codes are short: a person may try a few, then has to wait."""

    user: Any
    fields: dict[str, forms.Field]

    def clean_code(self) -> str:
        subject = str(self.user.pk)
        take(limits.SECOND_FACTOR, subject)
        code: str = super().clean_code()  # type: ignore[misc]
        limits.give_back(limits.SECOND_FACTOR, subject)
        return code


class CodeForm(_LimitedCode, AuthenticateForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _plain(self)
        self.fields["code"].widget.attrs["autofocus"] = True


class CodeAgainForm(_LimitedCode, ReauthenticateByCodeForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _plain(self)


class FirstCodeForm(_LimitedCode, ActivateTOTPForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _plain(self, code=_("Code from the app"))
