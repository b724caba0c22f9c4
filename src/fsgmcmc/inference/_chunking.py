"""How many steps of a compiled loop go into one call: about half a second, between which Python has control."""

# Chains are checked when a call ends, and their energy may be high in the first steps. A step of Adam may take seconds.
FIRST_CALL_STEPS = 100
FIRST_ADAM_STEPS = 1
SECONDS_PER_CALL = 0.5
LARGEST_GROWTH = 8.0


def next_steps(steps: int, seconds: float) -> int:
    """Steps of the next call after a call of `steps` steps that took `seconds`."""
    return max(1, int(steps * min(LARGEST_GROWTH, SECONDS_PER_CALL / max(seconds, 1e-9))))
