"""ζ², σ² and L in a line of metrics, where the config asks for them (``measure: N``, every N rounds).

A simulation holds every client's records; a real federation does not, and there this cannot be had. It looks at records
without noise, so a run that promises privacy refuses it.
"""

from torch import Tensor

from understudy.data.federation import Federation
from understudy.learning.heterogeneity import heterogeneity, slopes, smoothness
from understudy.models.network import Network
from understudy.randomness import generator
from understudy.studies.cost import pool_of
from understudy.studies.dealt import dealt_examples
from understudy.studies.folder import RunFolder

POWER_STEPS = 20  # of the power iteration for L: a line of metrics should not cost more than the round


def measured_round(net: Network, w: Tensor, data: Federation, run: RunFolder) -> dict[str, float]:
    """Over the clients' own records; ``…_shuffled`` with what they were dealt, where a pool was shuffled."""
    examples = {name: holding.own for name, holding in data.sites.items() if len(holding.own)}  # others never train
    own = {name: slopes(net, w, records) for name, records in examples.items()}
    before = heterogeneity(list(own.values()))
    found = {
        "zeta2": before.zeta2,
        "sigma2": before.sigma2,
        "smoothness": smoothness(net, w, list(examples.values()), generator("smoothness"), steps=POWER_STEPS),
    }
    if pool_of(run) is None:
        return found
    dealt = dealt_examples(run, data)
    after = heterogeneity([one.and_also(slopes(net, w, dealt[name])) for name, one in own.items()])
    return {**found, "zeta2_shuffled": after.zeta2, "sigma2_shuffled": after.sigma2}
