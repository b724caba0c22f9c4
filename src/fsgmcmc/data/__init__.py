"""Public data sets: finding, checking, downloading and standardising them."""

from fsgmcmc.data.augmentation import Shifted as Shifted
from fsgmcmc.data.context import context_images as context_images
from fsgmcmc.data.images import Images as Images, PixelScale as PixelScale, load_images as load_images
from fsgmcmc.data.mushroom import Mushrooms as Mushrooms, load_mushrooms as load_mushrooms
from fsgmcmc.data.places import DataNotFoundError as DataNotFoundError, DownloadError as DownloadError
from fsgmcmc.data.standardiser import Standardiser as Standardiser
from fsgmcmc.data.uci import (
    PUBLIC_SPLITS as PUBLIC_SPLITS,
    PUBLIC_URL as PUBLIC_URL,
    SHA256 as SHA256,
    UCI_NAMES as UCI_NAMES,
    Table as Table,
    available as available,
    fetch_uci as fetch_uci,
    folder as folder,
    load_uci as load_uci,
    random_split as random_split,
)
