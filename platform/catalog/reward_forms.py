"""The form of a reward: its name, and one small form per component, each after its class in trainers.rewards.spec."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, ClassVar

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from catalog.naming import LONGEST
from catalog.services import RewardRefused, reward_check
from trainers.rewards.spec import RewardSpec

EXAMPLE_CODE = '''def reward(prompt, completion, answer, row):
    """Between 0 and 1: how good is this completion?"""
    return 1.0 if completion.strip() == (answer or "").strip() else 0.0
'''
MAX_COMPONENTS = 20


class RewardForm(forms.Form):
    name = forms.CharField(label=_("Name"), max_length=LONGEST)
    description = forms.CharField(
        label=_("Description"), required=False, max_length=5000, widget=forms.Textarea(attrs={"rows": 2})
    )


class ComponentForm(forms.Form):
    """What all components have. ``kind``, ``title``, ``icon`` and ``about`` describe the subclass."""

    kind: ClassVar[str]
    title: ClassVar[Any]
    icon: ClassVar[str]
    about: ClassVar[Any]
    # Nearly every field has a default, so saying so at each would only be noise.
    mark_optional = False
    use_required_attribute = False
    # Templates would call the class where the page lists the kinds.
    do_not_call_in_templates = True

    name = forms.CharField(
        label=_("Name on charts"), required=False, help_text=_("Empty: its kind. Up to 60 characters, each one once.")
    )
    weight = forms.FloatField(
        label=_("Weight"),
        initial=1,
        required=False,
        widget=forms.NumberInput(attrs={"step": "any"}),
        help_text=_("Factor in the sum; negative for a penalty."),
    )

    def __init__(
        self, token: str, data: Mapping[str, Any] | None = None, spec: Mapping[str, Any] | None = None
    ) -> None:
        self.token = token
        super().__init__(
            data, prefix=token, initial={name: _shown(value) for name, value in spec.items()} if spec else None
        )

    def as_spec(self) -> dict[str, Any]:
        """The component as the reward spec has it; what was left empty takes the spec's own default."""
        self.is_valid()
        filled = {key: value for key, value in self.cleaned_data.items() if value not in (None, "")}
        return {"kind": self.kind, **filled}

    @property
    def own_fields(self) -> list[forms.BoundField]:
        """The fields of this kind alone, in their order."""
        return [self[name] for name in self.fields if name not in ("name", "weight")]


class ExactForm(ComponentForm):
    kind, title, icon = "exact", _("Equal to the answer"), "exact"
    about = _("1 when the completion equals the reference answer, else 0. White space at the ends does not count.")
    extract = forms.CharField(
        label=_("Compare only what matches"),
        required=False,
        widget=forms.TextInput(attrs={"class": "mono", "spellcheck": "false", "placeholder": r"####\s*(.+)"}),
        help_text=_("A regular expression: its last match in the completion (group 1 if it has one) is compared."),
    )
    ignore_case = forms.BooleanField(label=_("Ignore upper and lower case"), required=False)


class NumericForm(ComponentForm):
    kind, title, icon = "numeric", _("The right number"), "numeric"
    about = _("1 when a number in the completion is the reference answer, else 0. “1,000” and “1000.0” are the same.")
    which = forms.ChoiceField(
        label=_("Which number counts"),
        choices=[("last", _("the last one")), ("first", _("the first one"))],
        required=False,
    )
    tolerance = forms.FloatField(
        label=_("Tolerance"),
        initial=1e-6,
        required=False,
        widget=forms.NumberInput(attrs={"step": "any", "min": "0"}),
        help_text=_("Largest difference that is still right."),
    )


class PatternForm(ComponentForm):
    kind, title, icon = "pattern", _("Matches a pattern"), "pattern"
    about = _("1 when a regular expression is found in the completion, else 0. Good for asking for a format.")
    pattern = forms.CharField(
        label=_("Regular expression"),
        required=False,
        widget=forms.TextInput(
            attrs={"class": "mono", "spellcheck": "false", "placeholder": "<answer>.*</answer>", "required": True}
        ),
        help_text=_("In Python's syntax."),
    )
    whole = forms.BooleanField(label=_("It must match all of the completion"), required=False)


class LengthForm(ComponentForm):
    kind, title, icon = "length", _("Within a length"), "length"
    about = _("1 inside the range of characters, falling evenly to 0 at twice the distance outside of it.")
    minimum = forms.IntegerField(label=_("At least"), initial=0, required=False, help_text=_("Characters."))
    maximum = forms.IntegerField(label=_("At most"), initial=400, required=False, help_text=_("Characters."))


class PythonForm(ComponentForm):
    kind, title, icon = "python", _("A function of your own"), "python"
    about = _("Python that runs in a sandbox: no network, no files, the standard library only.")
    code = forms.CharField(
        label=_("Code"),
        required=False,
        initial=EXAMPLE_CODE,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 9, "class": "code", "spellcheck": "false", "data-code": ""}),
        help_text=_("Define reward(prompt, completion, answer, row). It returns a number; answer may be None."),
    )
    timeout_s = forms.FloatField(
        label=_("Time limit"),
        initial=10,
        required=False,
        widget=forms.NumberInput(attrs={"step": "any", "min": "0"}),
        help_text=_("Seconds for a whole batch of completions."),
    )

    def clean_code(self) -> str:
        return str(self.cleaned_data["code"]).replace("\r\n", "\n")


KINDS: dict[str, type[ComponentForm]] = {
    form.kind: form for form in (ExactForm, NumericForm, PatternForm, LengthForm, PythonForm)
}


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


def _shown(value: Any) -> Any:
    """A whole number is shown as one, though JSON made a float of it."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def sentence(message: str) -> str:
    """A spec's message as it stands beside a field."""
    text = message[:1].upper() + message[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."
