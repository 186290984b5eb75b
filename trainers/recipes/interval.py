"""How often to write a checkpoint: rarely enough to cost little, often enough to lose little.

Young (1974), "A first order approximation to the optimum checkpoint interval", Comm. ACM 17(9), refined by Daly
(2006): with a checkpoint that costs ``C`` seconds of training, and a failure every ``MTBF`` seconds on average, the
least time is wasted when ``sqrt(2 C MTBF)`` seconds pass between two checkpoints.
"""

from __future__ import annotations

import math

USUAL_MTBF_S = 86_400.0  # as long as nothing is known of the machines: one failure a day
SHORTEST_S = 10.0
# The first one shows what a checkpoint costs, so it does not wait for the longest interval.
FIRST_S = 60.0


def due_after_s(longest_s: float, cost_s: float | None, mtbf_s: float) -> float:
    """Seconds from one checkpoint to the next.

    ``longest_s`` is what the task allows, ``cost_s`` what a checkpoint has cost (None before the first).
    """
    if cost_s is None:
        return min(longest_s, FIRST_S)
    return min(longest_s, max(SHORTEST_S, math.sqrt(2.0 * cost_s * mtbf_s)))
