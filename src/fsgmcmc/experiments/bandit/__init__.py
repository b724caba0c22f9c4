"""Thompson sampling on the Mushroom data set."""
