"""Networks: functions f(x; w) with parameters in any pytree.

`base` has the contract, `mlp` and `convolutional` the built-in networks, `adapters` those of other libraries.
"""

from fsgmcmc.networks.adapters import (
    ApplyNetwork as ApplyNetwork,
    BFloat16 as BFloat16,
    FunctionNetwork as FunctionNetwork,
    as_network as as_network,
)
from fsgmcmc.networks.base import NETWORKS as NETWORKS, Network as Network, register as register
from fsgmcmc.networks.convolutional import LeNet as LeNet, ResNet as ResNet
from fsgmcmc.networks.mlp import ACTIVATIONS as ACTIVATIONS, MLP as MLP
