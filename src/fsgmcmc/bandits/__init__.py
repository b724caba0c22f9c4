"""Contextual bandits: Thompson sampling from the posterior of a network that predicts rewards."""

from fsgmcmc.bandits.agents import (
    Agent as Agent,
    Fitted as Fitted,
    Greedy as Greedy,
    NeuralLinear as NeuralLinear,
    Sampled as Sampled,
    Uniform as Uniform,
)
from fsgmcmc.bandits.buffer import ReplayBuffer as ReplayBuffer, with_replay_buffer as with_replay_buffer
from fsgmcmc.bandits.environments import (
    Environment as Environment,
    LinearGame as LinearGame,
    Mushroom as Mushroom,
    random_rounds as random_rounds,
)
from fsgmcmc.bandits.play import Game as Game, play as play
