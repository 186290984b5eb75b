"""Which colour and dash a run's line has: by its id, so that a run looks the same on every page."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

COLOURS = 8
DASHES = ("solid", "dash", "dot")


def looks_of(ids: Collection[UUID]) -> dict[UUID, tuple[str, str]]:
    """A colour token and a dash for each run, no two alike for up to 24 runs.

    A run takes the colour that its id asks for; of two that ask for the same the later by id takes the next free one.
    """
    taken: set[int] = set()
    found = {}
    for id in sorted(ids):
        wish = id.int % COLOURS
        places = [dash * COLOURS + (wish + n) % COLOURS for dash in range(len(DASHES)) for n in range(COLOURS)]
        place = next((place for place in places if place not in taken), wish)
        taken.add(place)
        found[id] = (f"--series-{place % COLOURS + 1}", DASHES[place // COLOURS])
    return found
