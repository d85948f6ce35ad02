"""ζ², σ², δ² and L in a line of metrics, where the config asks for them (``measure: N``, every N rounds).

A simulation holds every client's records; a real federation does not, and there this cannot be had. It looks at records
without noise, so a run that promises privacy refuses it.
"""

from torch import Tensor

from understudy.data.federation import Federation
from understudy.models.network import Network
from understudy.runs.dealt import dealt_examples
from understudy.runs.folder import RunFolder
from understudy.runs.shuffling import quantities

POWER_STEPS = 20  # of the power iteration for L: a line of metrics should not cost more than the round


def measured_round(net: Network, w: Tensor, data: Federation, run: RunFolder) -> dict[str, float]:
    """Over the clients' own records; ``…_shuffled`` with their parts of the pool, ``…_bound`` what Lemma 1 allows."""
    now = quantities(net, w, data, dealt_examples(run, data), POWER_STEPS)
    found = {"zeta2": now.zeta2, "sigma2": now.sigma2, "smoothness": now.smoothness}
    after = now.shuffled
    if after is None:
        return found
    return {
        **found,
        "zeta2_shuffled": after.zeta2,
        "zeta2_bound": after.zeta2_bound,
        "sigma2_shuffled": after.sigma2,
        "sigma2_bound": after.sigma2_bound,
        "smoothness_shuffled": after.smoothness,
        "delta2": after.delta2,
        "sigma2_pool": after.sigma2_pool,
        "share_shuffled": after.p,
    }
