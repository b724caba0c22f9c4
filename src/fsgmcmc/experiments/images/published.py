"""Published numbers on images, which the report prints next to ours.

Wu, Xuan and Lu, "Functional stochastic gradient MCMC for Bayesian neural networks", AISTATS 2025, image table.
"""

# Test error in per cent, and AUROC of the predictive entropy for out-of-distribution images.
PAPER_IMAGES: dict[str, dict[str, tuple[float, float]]] = {
    "mnist": {
        "sgld": (2.73, 0.859), "fsgld": (1.89, 0.960), "sghmc": (2.97, 0.853), "fsghmc": (1.64, 0.931),
        "fbnn": (3.99, 0.801), "ifbnn": (3.64, 0.949),
    },
    "fashion": {
        "sgld": (13.92, 0.633), "fsgld": (11.66, 0.849), "sghmc": (13.72, 0.589), "fsghmc": (11.91, 0.880),
        "fbnn": (14.36, 0.814), "ifbnn": (14.15, 0.838),
    },
    "cifar10": {
        "sgld": (49.56, 0.669), "fsgld": (33.57, 0.672), "sghmc": (48.13, 0.639), "fsghmc": (31.99, 0.717),
        "fbnn": (53.71, 0.612), "ifbnn": (53.38, 0.616),
    },
}  # fmt: skip
