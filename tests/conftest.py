"""What every test shares: shapes are checked, figures need no screen, keys are fixed, programs are compiled once."""

import logging
import os
import shutil
import tempfile

from jaxtyping import install_import_hook

# In the environment, so that commands started by a test draw without a screen as well.
os.environ["MPLBACKEND"] = "Agg"

# Tests run in several processes; one thread in each is faster than many that wait for each other.
os.environ.setdefault("NPROC", "1")

# Compiled programs on disk, for all processes of one session and the commands they start, and for no other session.
CACHE = "JAX_COMPILATION_CACHE_DIR"
OWN_CACHE = None if CACHE in os.environ else tempfile.mkdtemp(prefix="fsgmcmc-tests-")
os.environ.setdefault(CACHE, OWN_CACHE)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

# Most tests compile much and run little: without most optimisations, and with the compiler's older way to generate
# loops, they take half of the time.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_use_fusion_emitters=false"

# Only modules imported after this line are checked, so nothing above may import fsgmcmc.
# An int may stand where a float is asked for, as type checkers have it; beartype has to be told.
install_import_hook("fsgmcmc", "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))")

import jax  # noqa: E402
import pytest  # noqa: E402

# Minutes each: first, so that in the end no worker has one of them before it while the other has nothing to do.
LONGEST = (
    "test_documentation.py",
    "test_scikit_learn.py",
    "test_regressor.py",
    "test_sample.py",
    "test_model.py",
    "test_uci.py",
)


def pytest_collection_modifyitems(items):
    """The longest files come first."""
    items.sort(key=lambda item: item.path.name not in LONGEST)


def pytest_unconfigure():
    """The programs go with the session that compiled them."""
    if OWN_CACHE is not None:
        shutil.rmtree(OWN_CACHE, ignore_errors=True)


@pytest.fixture(autouse=True, scope="module")
def forgotten_programs():
    """Compiled programs of one file are not kept for the next: thousands of them exhaust a process' memory maps."""
    yield
    jax.clear_caches()


@pytest.fixture
def optimised():
    """Programs compiled with all optimisations, for tests that run millions of steps."""
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", True)


@pytest.fixture
def compiled():
    """Messages of JAX about the programs that it compiles in a test, with their names."""
    messages, handler = [], logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    logger = logging.getLogger("jax._src.interpreters.pxla")
    logger.addHandler(handler)
    with jax.log_compiles(True):
        yield messages
    logger.removeHandler(handler)


@pytest.fixture
def key() -> jax.Array:
    """A fixed random key; split it, never use it twice."""
    return jax.random.key(0)
