"""A service's refusal, beside the field it is about."""

from __future__ import annotations

from django import forms

from workspaces.errors import Refused


def put_on(form: forms.Form, error: Refused) -> None:
    """Show what a service refused beside its field, or at the top of the form."""
    form.add_error(error.field if error.field in form.fields else None, error.message)
