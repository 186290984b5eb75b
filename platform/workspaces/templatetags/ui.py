"""The small parts of a page: icons, states, fields, times, numbers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any

from django import template
from django.forms import BoundField, CheckboxInput, FileInput, RadioSelect, Select, Textarea
from django.template import Context
from django.templatetags.static import static
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from workspaces import formats
from workspaces.markdown import render as render_markdown

register = template.Library()


def _of_numbers(write: Callable[[Any], str]) -> Callable[[Any], str]:
    """A filter that writes a dash for what is missing or no number: templates read JSON that others filled in."""
    return lambda value: write(value if isinstance(value, int | float | Decimal) else None)


register.filter("plain", _of_numbers(lambda value: formats.MISSING if value is None else f"{value:g}"))
for _name in ("number", "percent", "size", "parameters", "duration"):
    register.filter("clock" if _name == "duration" else _name, _of_numbers(getattr(formats, _name)))


@register.simple_tag
def icon(name: str, label: str = "") -> SafeString:
    """``{% icon "play" %}``: an icon of static/vendor/icons/icons.svg, hidden from screen readers unless labelled."""
    href = f"{static('vendor/icons/icons.svg')}#{name}"
    if label:
        return format_html('<svg class="icon" role="img" aria-label="{}"><use href="{}"></use></svg>', label, href)
    return format_html('<svg class="icon" aria-hidden="true" focusable="false"><use href="{}"></use></svg>', href)


@register.simple_tag
def state_badge(row: Any) -> SafeString:
    """``{% state_badge row %}``: a state as icon, word and colour; ``row`` has ``label``, ``icon`` and ``tone``."""
    return badge(row.label, row.icon, row.tone)


@register.simple_tag
def badge(label: str, icon_name: str, tone: str) -> SafeString:
    """``{% badge "Running" "play" "running" %}``"""
    return format_html('<span class="state tone-{}">{}<span>{}</span></span>', tone, icon(icon_name), label)


@register.simple_tag(takes_context=True)
def when(context: Context, moment: datetime | None) -> SafeString | str:
    """``{% when job.created_at %}``: how long ago, kept current by frame.js, with the exact time and zone on hover."""
    if moment is None:
        return formats.MISSING
    user = getattr(context.get("request"), "user", None)
    return format_html(
        '<time datetime="{}" title="{}" data-relative>{}</time>',
        moment.isoformat(),
        formats.exact(moment, getattr(user, "time_zone", "")),
        formats.relative(moment, timezone.now()),
    )


@register.simple_tag
def duration(seconds: float | None) -> SafeString:
    """``{% duration 3849 %}`` → 1h 04m 09s"""
    return format_html('<span class="duration">{}</span>', formats.duration(seconds))


@register.simple_tag
def money(amount: Decimal | float | None, currency: str = "USD") -> SafeString:
    """``{% money job_cost "USD" %}``"""
    return format_html('<span class="num">{}</span>', formats.money(amount, currency))


@register.inclusion_tag("components/field.html")
def field(bound: BoundField, help: str = "", unit: str = "") -> dict[str, Any]:
    """``{% field form.name %}``: label, control, help and errors, tied together for screen readers."""
    if help:
        bound.help_text = help
    return {
        "field": bound,
        "control": control(bound),
        "help": bound.help_text,
        "unit": unit,
        "mark_optional": getattr(bound.form, "mark_optional", True),
        "is_check": isinstance(bound.field.widget, CheckboxInput),
        "is_group": isinstance(bound.field.widget, RadioSelect),
    }


@register.simple_tag
def control(bound: BoundField, label: str = "") -> SafeString:
    """``{% control form.name label="Name" %}``: only the control, with its classes and its ties to help and errors."""
    widget = bound.field.widget
    attrs: dict[str, Any] = {}
    classes = [str(widget.attrs.get("class", ""))]
    if isinstance(widget, CheckboxInput):
        classes.append("form-check-input")
    elif isinstance(widget, Select) and not isinstance(widget, RadioSelect):
        classes.append("form-select")
    elif not isinstance(widget, RadioSelect):
        classes.append("form-control")
    if bound.errors:
        classes.append("is-invalid")
        attrs["aria-invalid"] = "true"
    described = [f"{bound.auto_id}_help"] if bound.help_text else []
    if bound.errors:
        described.append(f"{bound.auto_id}_error")
    if described and not isinstance(widget, RadioSelect):
        attrs["aria-describedby"] = " ".join(described)
    if label:
        attrs["aria-label"] = label
    if not isinstance(widget, FileInput | CheckboxInput | Select | Textarea):
        attrs.setdefault("autocomplete", widget.attrs.get("autocomplete", "off"))
    attrs["class"] = " ".join(filter(None, classes))
    return bound.as_widget(attrs=attrs)


@register.filter
def markdown(text: str) -> SafeString:
    """What a person wrote in Markdown, cleaned."""
    return render_markdown(text)
