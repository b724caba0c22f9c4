"""How many steps of a compiled loop go into one call: about half a second's, between which Python can look."""

FIRST_CALL_STEPS = 100
SECONDS_PER_CALL = 0.5


def paced(steps: int, seconds: float) -> int:
    """Steps of the next call after one of so many that took so long."""
    if seconds < SECONDS_PER_CALL / 2:
        return 2 * steps
    return max(1, steps // 2) if seconds > SECONDS_PER_CALL * 2 else steps
