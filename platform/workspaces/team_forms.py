"""Forms of a team: names, invitations, roles, secrets, and what is confirmed by typing."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from workspaces.invitations import DAYS
from workspaces.models import Membership, Role, Secret, User, Workspace


class WorkspaceForm(forms.Form):
    name = forms.CharField(label=_("Name"), max_length=100, help_text=_("Up to 100 characters."))


class InvitationForm(forms.Form):
    mark_optional = False

    email = forms.EmailField(
        label=_("E-mail"),
        max_length=320,
        error_messages={"invalid": _("Write an e-mail address, such as ada@example.org.")},
    )
    role = forms.TypedChoiceField(label=_("Role"), coerce=int)
    days = forms.TypedChoiceField(
        label=_("Open for"),
        coerce=int,
        choices=[(1, _("a day")), (DAYS, _("7 days")), (30, _("30 days"))],
        initial=DAYS,
    )

    def __init__(self, highest: Role, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        role = self.fields["role"]
        assert isinstance(role, forms.TypedChoiceField)
        role.choices = roles_up_to(highest)
        role.initial = Role.EDITOR.value


class RoleForm(forms.Form):
    role = forms.TypedChoiceField(coerce=int, choices=Role.choices)


class TransferForm(forms.Form):
    mark_optional = False

    user = forms.ModelChoiceField(label=_("New owner"), queryset=User.objects.none(), empty_label=None)
    typed_name = forms.CharField(label=_("Name of the workspace"), max_length=200)

    def __init__(self, workspace: Workspace, actor: User, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        user = self.fields["user"]
        assert isinstance(user, forms.ModelChoiceField)
        others = Membership.objects.filter(workspace=workspace).exclude(user=actor).values("user_id")
        user.queryset = User.objects.filter(pk__in=others, is_active=True).order_by("name", "email")
        user.label_from_instance = _label  # type: ignore[method-assign, assignment]


class TypedNameForm(forms.Form):
    typed_name = forms.CharField(label=_("Name of the workspace"), max_length=200)


class TypedEmailForm(forms.Form):
    typed_email = forms.CharField(label=_("Your e-mail address"), max_length=320)


class HiddenText(forms.Textarea):
    """A field of several lines whose content is never sent back."""

    def format_value(self, value: Any) -> str:
        return ""


class SecretForm(forms.Form):
    mark_optional = False

    name = forms.CharField(
        label=_("Name"), max_length=64, help_text=_("Such as HF_TOKEN. A name that is taken gets the new value.")
    )
    kind = forms.ChoiceField(label=_("What it is"), choices=Secret.Kind.choices)
    value = forms.CharField(
        label=_("Value"),
        max_length=20_000,
        strip=False,
        widget=HiddenText(attrs={"rows": 3, "class": "hidden-text", "autocomplete": "off", "spellcheck": "false"}),
        help_text=_("Stored encrypted. It cannot be read back, only replaced. Key files of several lines fit too."),
    )


class NewPersonForm(forms.Form):
    name = forms.CharField(
        label=_("Name"),
        required=False,
        max_length=150,
        help_text=_("How the team sees you."),
        widget=forms.TextInput(attrs={"autocomplete": "name"}),
    )
    password = forms.CharField(
        label=_("Password"),
        max_length=1000,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text=_("At least 10 characters, not a common password, and not like your name or address."),
    )


def roles_up_to(highest: int) -> list[tuple[int, str]]:
    """The roles that a person with the role ``highest`` may give."""
    return [(role.value, role.label) for role in Role if role <= highest]


def _label(user: Any) -> str:
    return f"{user.name} ({user.email})" if user.name else user.email
