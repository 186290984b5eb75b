"""Forms of sign-in and of a person's settings."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import available_timezones

from django import forms
from django.contrib.auth import authenticate
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from workspaces import limits, selectors
from workspaces.models import Membership, Role, User, Workspace
from workspaces.scopes import scope_choices, scopes_of_role


class SignInForm(forms.Form):
    email = forms.EmailField(
        label=_("E-mail"),
        max_length=320,
        widget=forms.EmailInput(attrs={"autocomplete": "username", "autofocus": True}),
        error_messages={"invalid": _("Write an e-mail address, such as ada@example.org.")},
    )
    password = forms.CharField(
        label=_("Password"),
        max_length=1000,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )
    user: User | None = None

    def __init__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.request = request

    def clean(self) -> dict[str, Any]:
        """Every reason to refuse reads the same, so that nobody learns which addresses exist."""
        data = super().clean() or {}
        if self.errors:
            return data
        email = data["email"].strip().lower()
        address = self.request.META.get("REMOTE_ADDR", "")
        allowed = limits.take(limits.SIGN_IN_BY_ADDRESS, address) and limits.take(limits.SIGN_IN_BY_EMAIL, email)
        if not allowed:
            raise forms.ValidationError(
                _("Too many attempts to sign in. Wait a minute, then try again."), code="limited"
            )
        user = authenticate(self.request, username=email, password=data["password"])
        if not isinstance(user, User):
            raise forms.ValidationError(_("No account has this e-mail address and password."), code="wrong")
        limits.give_back(limits.SIGN_IN_BY_EMAIL, email)
        self.user = user
        return data


class ProjectForm(forms.Form):
    name = forms.CharField(
        label=_("Name"),
        max_length=100,
        widget=forms.TextInput(attrs={"autofocus": True}),
        help_text=_("Jobs, datasets, rewards and models live in a project. Up to 100 characters."),
    )
    description = forms.CharField(
        label=_("Description"), required=False, max_length=2000, widget=forms.Textarea(attrs={"rows": 3})
    )


class ProfileForm(forms.Form):
    name = forms.CharField(label=_("Name"), required=False, max_length=150, help_text=_("How the team sees you."))
    time_zone = forms.ChoiceField(
        label=_("Time zone"),
        required=False,
        help_text=_("Exact times, shown when you point at a time, are in this zone."),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        zones = sorted(
            zone for zone in available_timezones() if "/" in zone and not zone.startswith(("Etc/", "posix/"))
        )
        field = self.fields["time_zone"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [("", "UTC"), *((zone, zone.replace("_", " ")) for zone in zones)]


EXPIRIES = {"30": 30, "90": 90, "365": 365}


class TokenForm(forms.Form):
    mark_optional = False

    name = forms.CharField(
        label=_("Name"), max_length=100, help_text=_("Where it will be used, such as “laptop” or “nightly job”.")
    )
    workspace = forms.ModelChoiceField(
        label=_("Workspace"), queryset=Workspace.objects.none(), empty_label=None, help_text=_("All it can reach.")
    )
    role = forms.TypedChoiceField(label=_("Role"), coerce=int, help_text=_("Never more than your own role there."))
    scopes = forms.MultipleChoiceField(
        label=_("May be used to"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=_("Every token may look. Leave out what the program does not need."),
    )
    expires = forms.ChoiceField(
        label=_("Expires"),
        choices=[("30", _("in 30 days")), ("90", _("in 90 days")), ("365", _("in a year")), ("", _("never"))],
        initial="90",
        required=False,
    )

    def __init__(self, user: User, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        workspace, role = self.fields["workspace"], self.fields["role"]
        assert isinstance(workspace, forms.ModelChoiceField)
        assert isinstance(role, forms.TypedChoiceField)
        workspace.queryset = selectors.workspaces_of(user)
        highest = Membership.objects.filter(user=user).order_by("-role").values_list("role", flat=True).first()
        role.choices = [(r.value, r.label) for r in Role if highest is not None and r <= highest]
        role.initial = min(Role.EDITOR, highest or Role.VIEWER)
        scopes = self.fields["scopes"]
        assert isinstance(scopes, forms.MultipleChoiceField)
        scopes.choices = scope_choices(highest or Role.VIEWER)
        scopes.initial = scopes_of_role(role.initial)

    def expires_at(self) -> datetime | None:
        days = EXPIRIES.get(self.cleaned_data["expires"])
        return timezone.now() + timedelta(days=days) if days else None
