"""How long to wait for a full server."""

import random

MAX_TOTAL_WAIT_S = 120.0  # All waits of a call together.


def wait_before(tries: int, asked: float) -> float:
    """Seconds to wait before another try.

    Until the moment that the server asks for, and up to a tenth longer; otherwise twice as long
    from try to try, half of it random.
    """
    if asked > 0:
        return max(asked, 0.2) * random.uniform(1, 1.1)
    return 0.25 * 2**tries * random.uniform(0.5, 1)
