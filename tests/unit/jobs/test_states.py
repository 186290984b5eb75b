"""The lifecycle table itself."""

from __future__ import annotations

import pytest

from jobs.states import ACTIVE, TABLE, TERMINAL, WITHOUT_PROCESS, State, TransitionError, check


def test_every_state_has_a_row_with_a_word_an_icon_and_a_meaning():
    assert set(TABLE) == set(State)
    assert all(row.label and row.icon and row.tone and row.meaning for row in TABLE.values())


def test_exactly_succeeded_failed_and_cancelled_are_ends():
    assert {State.SUCCEEDED, State.FAILED, State.CANCELLED} == TERMINAL


def test_every_active_state_but_cancelling_can_be_cancelled():
    for state in ACTIVE - {State.CANCELLING}:
        target = State.CANCELLED if state in WITHOUT_PROCESS else State.CANCELLING
        check(state, target)
        assert "cancel" in TABLE[state].actions


def test_every_active_state_can_reach_an_end():
    for start in ACTIVE:
        seen, edge = {start}, {start}
        while edge:
            edge = {target for state in edge for target in TABLE[state].to} - seen
            seen |= edge
        assert seen & TERMINAL


@pytest.mark.parametrize("end", sorted(TERMINAL))
def test_an_end_stays_an_end(end):
    for target in State:
        with pytest.raises(TransitionError):
            check(end, target)


def test_a_cancelled_job_cannot_fail_any_more():
    with pytest.raises(TransitionError, match="cancelling cannot become failed"):
        check(State.CANCELLING, State.FAILED)
