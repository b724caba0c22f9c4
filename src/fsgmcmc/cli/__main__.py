"""`python -m fsgmcmc.cli`."""

from fsgmcmc.cli import app

app()
