"""How many steps of a compiled loop go into one call: about half a second's, between which Python can look."""

# One may take seconds: nobody is to wait for many before it is known.
FIRST_CALL_STEPS = 1
SECONDS_PER_CALL = 0.5
LARGEST_GROWTH = 8.0


def paced(steps: int, seconds: float) -> int:
    """Steps of the next call after one of so many that took so long."""
    return max(1, int(steps * min(LARGEST_GROWTH, SECONDS_PER_CALL / max(seconds, 1e-9))))
