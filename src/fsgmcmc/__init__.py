"""Bayesian neural networks sampled in function space.

A user meets a network (`MLP`), a prior on its function (`GaussianProcess`, `pretrain`), a likelihood (`Gaussian`), the
points where the prior is measured (`measurement`), the posterior (`function_space`), a sampler (`fsghmc`) and `sample`.

Each name is loaded when it is first used; `__init__.pyi` tells from where.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

__version__ = "0.1.0"
