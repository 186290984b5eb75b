"""Saving rewards, their form, and trying them."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils.html import escape

from catalog.models import RewardConfig, RewardVersion
from catalog.reward_kinds import KINDS
from catalog.services import RewardRefused, dataset_upload, reward_delete, reward_save
from trainers.rewards.spec import COMPONENT_CLASSES, COMPONENT_KINDS
from workspaces.errors import Refused
from workspaces.models import AuditEvent

pytestmark = pytest.mark.django_db

NUMERIC = {"components": [{"kind": "numeric"}]}


def form(*parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """What the browser sends: each part under a token of its own."""
    data: dict[str, Any] = {"name": "Right sum", "description": "", "component": [], **fields}
    for number, part in enumerate(parts):
        data["component"].append(f"c{number}")
        data |= {f"c{number}-{name}": value for name, value in part.items()}
    return data


@pytest.fixture
def as_bob(client: Client, bob: Any) -> Client:
    client.force_login(bob)
    return client


def test_the_same_content_is_the_same_version(project: Any, bob: Any):
    first = reward_save(project=project, name="Right sum", spec=NUMERIC, actor=bob)
    again = reward_save(
        project=project, name="right SUM", spec={"components": [{"kind": "numeric", "weight": 1}]}, actor=bob
    )
    changed = reward_save(project=project, name="Right sum", spec={"components": [{"kind": "exact"}]}, actor=bob)
    back = reward_save(project=project, name="Right sum", spec=NUMERIC, actor=bob)
    assert again == first
    assert [changed.number, back.number] == [2, 3]
    assert AuditEvent.objects.filter(action="reward.save").count() == 3


def test_a_bad_spec_is_refused_with_the_path_of_each_field(project: Any, bob: Any):
    bad = {
        "components": [
            {"kind": "pattern", "pattern": "("},
            {"kind": "length", "minimum": 5, "maximum": 2},
            {"kind": "x"},
        ]
    }
    with pytest.raises(RewardRefused) as refused:
        reward_save(project=project, name="Bad", spec=bad, actor=bob)
    paths = [path for path, _message in refused.value.errors]
    assert paths == ["components.0.pattern", "components.1", "components.2"]
    assert not RewardConfig.objects.exists()


def test_a_used_reward_stays(project: Any, alice: Any):
    import factories

    version = reward_save(project=project, name="Right sum", spec=NUMERIC, actor=alice)
    job = factories.job(project, alice)
    job.reward_version = version
    job.save()
    with pytest.raises(Refused, match="Jobs used this reward"):
        reward_delete(reward=version.reward, actor=alice)
    job.delete()
    reward_delete(reward=version.reward, actor=alice)
    assert not RewardVersion.objects.exists()


def test_the_form_saves_every_kind_of_component(as_bob: Client, project: Any):
    parts = (
        {"kind": "exact", "extract": r"<a>(.*)</a>", "ignore_case": "on", "name": "", "weight": "1"},
        {"kind": "numeric", "which": "first", "tolerance": "0.5", "weight": ""},
        {"kind": "pattern", "pattern": "^ok", "name": "starts", "weight": "0.25"},
        {"kind": "length", "minimum": "1", "maximum": "50", "weight": "-1"},
        {
            "kind": "python",
            "code": "def reward(prompt, completion, answer, row):\r\n    return 1.0\r\n",
            "timeout_s": "5",
        },
    )
    answer = as_bob.post(reverse("reward-new", args=[project.pk]), form(*parts))
    version = RewardVersion.objects.get()
    assert answer["Location"] == reverse("reward", args=[project.pk, version.reward_id])
    kept = version.spec["components"]
    assert [part["kind"] for part in kept] == ["exact", "numeric", "pattern", "length", "python"]
    assert [part["weight"] for part in kept] == [1, 1, 0.25, -1, 1]
    assert kept[0] | {"ignore_case": True, "extract": r"<a>(.*)</a>", "name": None} == kept[0]
    assert kept[4]["code"] == "def reward(prompt, completion, answer, row):\n    return 1.0\n"
    page = as_bob.get(answer["Location"]).content.decode()
    assert "def reward(prompt, completion, answer, row):" in page


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([], "A reward needs at least one component."),
        ([{"kind": "pattern", "pattern": ""}], "Regular expression"),
        ([{"kind": "pattern", "pattern": "("}], "Not a regular expression"),
        ([{"kind": "python", "code": "def reward(:\n"}], "Line 1:"),
        ([{"kind": "exact"}, {"kind": "exact"}], "Two components are called"),
        ([{"kind": "length", "minimum": "9", "maximum": "3"}], "larger than maximum"),
        ([{"kind": "numeric", "tolerance": "much"}], "Enter a number."),
    ],
)
def test_what_is_wrong_stands_in_the_form_and_nothing_is_saved(as_bob: Client, project: Any, parts: Any, said: str):
    page = as_bob.post(reverse("reward-new", args=[project.pk]), form(*parts))
    assert page.status_code == 200
    assert said in page.content.decode()
    assert not RewardConfig.objects.exists()


def test_the_error_is_tied_to_its_field(as_bob: Client, project: Any):
    page = as_bob.post(reverse("reward-new", args=[project.pk]), form({"kind": "pattern", "pattern": "("}))
    html = page.content.decode()
    assert 'id="id_c0-pattern_error"' in html
    assert 'aria-describedby="id_c0-pattern_help id_c0-pattern_error"' in html


def test_a_new_reward_does_not_overwrite_one_of_the_same_name(as_bob: Client, project: Any, bob: Any):
    reward_save(project=project, name="right sum", spec=NUMERIC, actor=bob)
    page = as_bob.post(reverse("reward-new", args=[project.pk]), form({"kind": "exact"}))
    assert "already has a reward of this name" in page.content.decode()
    assert RewardVersion.objects.count() == 1


def test_editing_makes_a_version_and_keeps_the_name(as_bob: Client, project: Any, bob: Any):
    version = reward_save(project=project, name="Right sum", spec=NUMERIC, actor=bob)
    url = reverse("reward-edit", args=[project.pk, version.reward_id])
    assert "The right number" in as_bob.get(url).content.decode()
    assert as_bob.post(url, form({"kind": "exact"}, name="Another name")).status_code == 302
    assert [(v.reward.name, v.number) for v in RewardVersion.objects.all()] == [("Right sum", 2), ("Right sum", 1)]


def test_one_more_component_can_be_had(as_bob: Client, project: Any):
    url = reverse("reward-component", args=[project.pk])
    first, second = (as_bob.get(url, {"kind": "length"}).content.decode() for _ in range(2))
    assert "-maximum" in first
    assert first != second, "each has a token of its own"
    assert as_bob.get(url, {"kind": "nonsense"}).status_code == 404


def test_trying_on_pasted_text_shows_each_parts_value(as_bob: Client, project: Any):
    parts = ({"kind": "numeric"}, {"kind": "pattern", "pattern": "therefore", "weight": "0.5"})
    data = form(*parts) | {
        "try-source": "",
        "try-prompt": "2 + 2?",
        "try-completion": "therefore 4 <b>",
        "try-answer": "4",
    }
    page = as_bob.post(reverse("reward-try", args=[project.pk]), data).content.decode()
    assert "1.50" in page
    assert "accurate" in page
    assert "4 &lt;b&gt;" in page
    assert not RewardConfig.objects.exists(), "trying saves nothing"


def test_trying_on_a_dataset_tells_whether_it_separates_right_from_wrong(as_bob: Client, project: Any, bob: Any):
    rows = [{"question": f"{n} + 1?", "answer": str(n + 1)} for n in range(4)]
    file = io.BytesIO("\n".join(map(json.dumps, rows)).encode())
    version = dataset_upload(project=project, name="Sums", file=file, file_name="s.jsonl", actor=bob)
    url = reverse("reward-try", args=[project.pk])
    good = as_bob.post(url, form({"kind": "numeric"}) | {"try-source": str(version.pk)}).content.decode()
    assert "It tells right from wrong" in good
    blind = as_bob.post(
        url, form({"kind": "length", "maximum": "9"}) | {"try-source": str(version.pk)}
    ).content.decode()
    assert "could not tell them apart" in blind


def test_code_that_fails_or_never_ends_is_an_answer_and_not_an_error(as_bob: Client, project: Any):
    code = "def reward(prompt, completion, answer, row):\n    raise ValueError('no <b>luck</b>')\n"
    data = form({"kind": "python", "code": code}) | {"try-source": "", "try-completion": "x"}
    page = as_bob.post(reverse("reward-try", args=[project.pk]), data).content.decode()
    assert "no &lt;b&gt;luck" in page
    endless = "def reward(prompt, completion, answer, row):\n    while True:\n        pass\n"
    data = form({"kind": "python", "code": endless, "timeout_s": "0.5"}) | {"try-source": "", "try-completion": "x"}
    page = as_bob.post(reverse("reward-try", args=[project.pk]), data)
    assert page.status_code == 200
    assert 'class="error"' in page.content.decode()


def test_another_projects_dataset_cannot_be_tried_on(as_bob: Client, project: Any, mallory: Any):
    import factories

    from workspaces.models import Project

    foreign = factories.dataset_version(Project.objects.get(name="Elsewhere"))
    data = form({"kind": "numeric"}) | {"try-source": str(foreign.pk)}
    page = as_bob.post(reverse("reward-try", args=[project.pk]), data).content.decode()
    assert "not one of the available choices" in page


def test_viewers_look_only(client: Client, carol: Any, project: Any, bob: Any):
    version = reward_save(project=project, name="Right sum", spec=NUMERIC, actor=bob)
    client.force_login(carol)
    one = [project.pk, version.reward_id]
    assert client.get(reverse("reward", args=one)).status_code == 200
    for name, args in (("reward-new", [project.pk]), ("reward-edit", one)):
        assert client.get(reverse(name, args=args)).status_code == 403
    for name, args in (
        ("reward-new", [project.pk]),
        ("reward-edit", one),
        ("reward-delete", one),
        ("reward-try", [project.pk]),
    ):
        assert client.post(reverse(name, args=args)).status_code == 403
    assert RewardVersion.objects.count() == 1


def test_the_form_saves_the_kinds_that_check_form_and_meaning(as_bob: Client, project: Any):
    schema = {"type": "object", "required": ["name"]}
    parts = (
        {"kind": "math", "at_least": "1", "otherwise": "-0.5"},
        {"kind": "similarity", "method": "token_sort", "ignore_case": "on"},
        {"kind": "json_schema", "definition": json.dumps(schema), "partial": "0.2", "strict": "on"},
        {"kind": "code", "tests": "cases", "every": "on", "timeout_s": "2"},
        {"kind": "tags", "tags": "think, <answer>", "outside": "on"},
        {"kind": "length_target", "target": "10", "width": "5", "unit": "tokens"},
        {"kind": "overlong", "limit": "100", "buffer": "20", "unit": "characters"},
        {"kind": "repetition", "size": "3", "unit": "words"},
        {
            "kind": "judge",
            "endpoint": "https://api.example.com/v1",
            "model": "referee",
            "secret": "JUDGE_KEY",
            "prompt": "How good is {completion}?",
            "max_calls": "100",
        },
    )
    answer = as_bob.post(reverse("reward-new", args=[project.pk]), form(*parts))
    assert answer.status_code == 302, answer.content.decode()
    version = RewardVersion.objects.get()
    kept = {part["kind"]: part for part in version.spec["components"]}
    assert (kept["math"]["at_least"], kept["math"]["otherwise"]) == (1, -0.5)
    assert kept["similarity"]["method"] == "token_sort" and kept["json_schema"]["definition"] == schema
    assert kept["tags"]["tags"] == ["think", "answer"] and kept["code"]["tests"] == "cases"
    assert kept["judge"]["secret"] == "JUDGE_KEY" and kept["judge"]["max_calls"] == 100
    page = as_bob.get(answer["Location"]).content.decode()
    assert "Gate: below" in page and "How good is {completion}?" in page
    again = as_bob.get(reverse("reward-edit", args=[project.pk, version.reward_id])).content.decode()
    assert 'value="think, answer"' in again and "&quot;required&quot;: [" in again


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_component_of_every_kind_is_offered_with_its_fields(as_bob: Client, project: Any, kind: str):
    page = as_bob.get(reverse("reward-component", args=[project.pk]), {"kind": kind})
    assert page.status_code == 200 and escape(str(KINDS[kind].title)) in page.content.decode()


def test_every_kind_of_the_spec_has_a_form_with_all_its_fields():
    assert set(KINDS) == COMPONENT_KINDS
    for kind, cls in COMPONENT_CLASSES.items():
        assert set(KINDS[kind].base_fields) == set(cls.model_fields) - {"kind"}, kind
        initial = {name: field.initial for name, field in KINDS[kind].base_fields.items() if field.initial is not None}
        for name, value in initial.items():
            default = cls.model_fields[name].default
            if isinstance(default, int | float) and not isinstance(default, bool):
                assert value == default, f"{kind}.{name}"


def test_a_schema_that_is_no_json_is_named_beside_its_field(as_bob: Client, project: Any):
    page = as_bob.post(reverse("reward-new", args=[project.pk]), form({"kind": "json_schema", "definition": "{broken"}))
    assert 'id="id_c0-definition_error"' in page.content.decode()


def test_a_judge_without_its_secret_says_so_on_the_bench(as_bob: Client, project: Any):
    part = {
        "kind": "judge",
        "endpoint": "https://api.example.com/v1",
        "model": "referee",
        "secret": "NOT_THERE",
        "prompt": "{completion}",
    }
    data = form(part) | {"try-source": "", "try-completion": "x"}
    page = as_bob.post(reverse("reward-try", args=[project.pk]), data).content.decode()
    assert "no secret called" in page and "NOT_THERE" in page
