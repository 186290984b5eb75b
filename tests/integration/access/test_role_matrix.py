"""Everyone asks for everything: each address, each method, each caller; and looking changes nothing.

The tables beside this file say who may do what; an address that is in none of them fails the first tests.
"""

from __future__ import annotations

import pytest
from access_table import METHODS, UNSAFE, Caller, Entry, Need, Verdict, verdict
from access_walk import Answer, address, ask, foreign_parts, hints, operations, plain, routes
from access_world import MARKER, NOBODY, PEOPLE, PROGRAMS, World
from django.core.cache import cache
from django.db import transaction
from table_of_operations import NOTHING_THERE, OPERATIONS
from table_of_pages import ONLY_WITH_SSO, PAGES

pytestmark = pytest.mark.usefixtures("db")

ENTRIES: dict[str, Entry] = {entry.route: entry for entry in (*PAGES, *OPERATIONS)}
OWNER = {False: PEOPLE[-1], True: PROGRAMS[-1]}
CASES = [
    pytest.param(entry, method, id=f"{method} {entry.route or '/'}")
    for entry in ENTRIES.values()
    for method in METHODS
    if method in entry.needs
]


def asked(world: World, entry: Entry, method: str, caller: Caller) -> Answer:
    """The answer, whatever it changed undone."""
    with transaction.atomic():
        answer = ask(world, entry, method, caller)
        transaction.set_rollback(True)
    cache.clear()
    return answer


def test_every_address_is_in_a_table_and_every_line_of_a_table_has_an_address():
    assert {route for route, _view in routes()} - set(NOTHING_THERE + ONLY_WITH_SSO) == set(ENTRIES)


@pytest.mark.parametrize("route", [*ONLY_WITH_SSO, "api/", "api/v1/nothing"])
def test_what_is_not_there_is_not_there_for_anyone(world: World, route: str):
    for caller in PEOPLE:
        assert world.page_client(caller).get(f"/{route}").status_code == 404


def test_no_address_is_in_two_lines():
    assert len(ENTRIES) == len((*PAGES, *OPERATIONS))


def test_every_operation_of_the_api_is_in_a_table_with_its_method():
    described = {(method, plain(e.route)) for e in OPERATIONS for method in e.needs}
    undescribed = {("GET", "api/docs"), ("GET", "api/v1/openapi.json")}
    assert operations() == described - undescribed


@pytest.mark.parametrize(("entry", "method"), CASES)
def test_each_caller_gets_the_answer_that_is_theirs(world: World, entry: Entry, method: str):
    wrong = []
    callers = PROGRAMS if entry.for_programs else PEOPLE
    # What is for everybody knows no callers.
    for caller in callers if entry.needs[method] is not Need.PUBLIC else (callers[0], callers[3], callers[-1]):
        wanted = verdict(entry, method, caller)
        answer = asked(world, entry, method, caller)
        faults = [] if answer.is_a(wanted) else [f"gets {answer.status} instead of {wanted.value}"]
        # The operator reads every mail, on these pages alone.
        if caller.role is None and not (caller.staff and entry.needs[method] is Need.STAFF):
            faults += hints(answer)
        if not entry.for_programs:
            faults += foreign_parts(answer)
        if method == "GET" or wanted not in (Verdict.ALLOWED, Verdict.PUBLIC):
            faults += [f"writes {sql}" for sql in answer.written]
        wrong += [f"{caller.name} {fault}" for fault in faults]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=[route or "/" for route in ENTRIES])
def test_a_method_that_is_not_named_is_refused_to_all(world: World, entry: Entry):
    wrong = []
    for method in set(METHODS) - set(entry.needs):
        for caller in (NOBODY, OWNER[entry.for_programs]):
            answer = asked(world, entry, method, caller)
            if answer.status not in (302, 401, 403, 404, 405) or answer.written:
                wrong.append(f"{method} by {caller.name} answers {answer.status} {answer.written}")
            if answer.status == 302 and not answer.is_a(Verdict.SIGN_IN):
                wrong.append(f"{method} by {caller.name} leads to {answer.location}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("entry", "method"),
    [case for case in CASES if case.values[1] in UNSAFE and not case.values[0].for_programs],
)
def test_a_form_without_its_csrf_token_is_refused(world: World, entry: Entry, method: str):
    client = world.page_client(OWNER[False], enforce_csrf_checks=True)
    answer = client.generic(method, address(entry, world), "name=x", content_type="application/x-www-form-urlencoded")
    assert answer.status_code == 403
    assert "CSRF" in answer.reason_phrase or b"form" in answer.content


@pytest.mark.parametrize(
    "entry", [e for e in ENTRIES.values() if e.needs.get("GET") is Need.VIEWER], ids=lambda entry: entry.route
)
def test_a_member_sees_what_a_stranger_must_not(world: World, entry: Entry):
    member = next(c for c in (PROGRAMS if entry.for_programs else PEOPLE) if c.role is not None)
    answer = asked(world, entry, "GET", member)
    assert (answer.status == 302 or answer.shows(MARKER)) != entry.quiet
