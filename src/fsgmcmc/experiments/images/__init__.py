"""Image classification, and detection of out-of-distribution images."""
