"""The form of a reward: its name, and one small form per component."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from catalog.naming import LONGEST
from catalog.reward_kinds import KINDS, ComponentForm
from catalog.services import RewardRefused, reward_check
from trainers.rewards.spec import RewardSpec

MAX_COMPONENTS = 20


class RewardForm(forms.Form):
    name = forms.CharField(label=_("Name"), max_length=LONGEST)
    description = forms.CharField(
        label=_("Description"), required=False, max_length=5000, widget=forms.Textarea(attrs={"rows": 2})
    )


def new_component(kind: str, spec: Mapping[str, Any] | None = None) -> ComponentForm:
    """An empty component form, or one that shows ``spec``; its fields' names begin with a token of its own."""
    return KINDS[kind](f"c{secrets.token_hex(4)}", spec=spec)


class RewardEditor:
    """A whole reward as a form: ``form`` and ``components``; after ``is_valid`` also ``spec``.

    The posted list ``component`` holds each component's token in order, and ``<token>-kind`` its kind.
    """

    spec: RewardSpec | None = None

    def __init__(
        self,
        data: QueryDict | None = None,
        *,
        initial: dict[str, str] | None = None,
        spec: dict[str, Any] | None = None,
    ) -> None:
        self.form = RewardForm(data, initial=initial)
        self.errors: list[str] = []
        if data is None:
            parts = spec["components"] if spec else [{"kind": "exact"}]
            self.components = [new_component(part["kind"], part if spec else None) for part in parts]
            return
        tokens = [t for t in data.getlist("component") if t.isalnum() and len(t) < 20][: MAX_COMPONENTS + 1]
        kinds = [(token, KINDS.get(data.get(f"{token}-kind", ""))) for token in dict.fromkeys(tokens)]
        self.components = [kind(token, data) for token, kind in kinds if kind is not None]

    def is_valid(self, *, named: bool = True) -> bool:
        """Check everything, putting each message beside its field. ``named``: a name is needed too."""
        form_ok = self.form.is_valid() or not named
        parts = [component.as_spec() for component in self.components]
        typed_ok = not any(component.errors for component in self.components)
        try:
            spec = reward_check({"components": parts})
        except RewardRefused as refused:
            for path, message in refused.errors:
                self._place(path, message)
            return False
        self.spec = spec
        return form_ok and typed_ok

    def _place(self, path: str, message: str) -> None:
        steps = path.split(".")
        index = int(steps[1]) if len(steps) > 1 and steps[1].isdigit() else -1
        if not 0 <= index < len(self.components):
            self.errors.append(sentence(message))
            return
        component = self.components[index]
        name = steps[2] if len(steps) > 2 and steps[2] in component.fields else None
        if name is None or name not in component.errors:
            component.add_error(name, sentence(message))


def sentence(message: str) -> str:
    """A spec's message as it stands beside a field."""
    text = message[:1].upper() + message[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."
