"""The form that uploads a dataset."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.naming import LONGEST
from trainers.data.columns import PARTS
from trainers.spec import Columns
from workspaces import formats

ENDINGS = ".jsonl,.ndjson,.json,.csv,.tsv,.parquet,.txt,.md,.gz"


def _column(label: Any, help_text: Any) -> forms.CharField:
    # The columns of a file that was refused (templates/catalog/upload_refused.html).
    widget = forms.TextInput(attrs={"list": "file-columns"})
    return forms.CharField(label=label, required=False, max_length=200, widget=widget, help_text=help_text)


class UploadForm(forms.Form):
    file = forms.FileField(
        label=gettext_lazy("File"),
        allow_empty_file=True,
        widget=forms.FileInput(attrs={"accept": ENDINGS}),
        error_messages={"required": gettext_lazy("Choose a file.")},
    )
    name = forms.CharField(
        label=gettext_lazy("Name"),
        required=False,
        max_length=LONGEST,
        help_text=gettext_lazy("Empty: the file's name. A name that the project already has gets a new version."),
    )
    prompt = _column(gettext_lazy("Prompt column"), gettext_lazy("The question."))
    answer = _column(gettext_lazy("Answer column"), gettext_lazy("The reference answer."))
    messages = _column(gettext_lazy("Messages column"), gettext_lazy("A whole chat."))
    system = _column(gettext_lazy("System column"), gettext_lazy("System prompts."))
    chosen = _column(gettext_lazy("Chosen column"), gettext_lazy("Of a pair, the better answer."))
    rejected = _column(gettext_lazy("Rejected column"), gettext_lazy("Of a pair, the worse one."))
    text = _column(gettext_lazy("Text column"), gettext_lazy("Plain text."))

    def clean_file(self) -> UploadedFile:
        file: UploadedFile = self.cleaned_data["file"]
        if file.size is not None and file.size > settings.UPLOAD_MAX_BYTES:
            raise forms.ValidationError(
                _("The file has %(size)s; this installation accepts at most %(limit)s.")
                % {"size": formats.size(file.size), "limit": formats.size(settings.UPLOAD_MAX_BYTES)}
            )
        return file

    def columns(self) -> Columns | None:
        """The columns chosen by hand; None when all are to be found by their names."""
        chosen: dict[str, Any] = {part: self.cleaned_data[part] for part in PARTS if self.cleaned_data[part]}
        return Columns(**chosen) if chosen else None

    @property
    def column_fields(self) -> list[forms.BoundField]:
        return [self[part] for part in PARTS]

    @property
    def names_columns(self) -> bool:
        return any(self[part].value() for part in PARTS)
