"""How many steps of a compiled loop go into one call: about half a second's, between which Python can look."""

# Chains are judged when a call ends, and may need some steps to settle. Adam is not, and a step of it may take seconds.
FIRST_CALL_STEPS = 100
FIRST_DESCENT_STEPS = 1
SECONDS_PER_CALL = 0.5
LARGEST_GROWTH = 8.0


def paced(steps: int, seconds: float) -> int:
    """Steps of the next call after one of so many that took so long."""
    return max(1, int(steps * min(LARGEST_GROWTH, SECONDS_PER_CALL / max(seconds, 1e-9))))
