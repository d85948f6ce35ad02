"""FedJAX's own federated averaging, clients compiled by `jit` (its default): ``python fedjax_rounds.py FOLDER END``."""

import os
import sys
from importlib.metadata import version

# One thread, as every contender has; XLA starts more of them all the same, so they share one core.
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np
from turns import Clock, Given, save, say, wait

if not hasattr(jax, "tree_map"):
    jax.tree_map = jax.tree_util.tree_map  # FedJAX 0.0.17 still calls it by this name

import fedjax
from fedjax.algorithms import fed_avg


def perceptron(weights, x):
    hidden = jax.nn.relu(x.reshape(len(x), -1) @ weights["features.1.weight"].T + weights["features.1.bias"])
    return hidden @ weights["head.weight"].T + weights["head.bias"]


def convolutions(weights, x):
    x = x.transpose(0, 2, 3, 1)
    for at in (0, 3):
        kernel = weights[f"features.{at}.weight"].transpose(2, 3, 1, 0)
        x = jax.lax.conv_general_dilated(x, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = jax.nn.relu(x + weights[f"features.{at}.bias"])
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return x.transpose(0, 3, 1, 2).reshape(len(x), -1) @ weights["head.weight"].T + weights["head.bias"]


def main(folder, end):
    given = Given(folder)
    logits = {"W1": perceptron, "W2": convolutions}[given.name]

    def loss(weights, batch, _):
        told = jax.nn.log_softmax(logits(weights, batch["x"]))
        return -jnp.take_along_axis(told, batch["y"][:, None], 1).mean()

    algorithm = fed_avg.federated_averaging(
        jax.grad(loss),
        fedjax.optimizers.sgd(learning_rate=given.lr),
        fedjax.optimizers.sgd(learning_rate=1.0),
        fedjax.ShuffleRepeatBatchHParams(batch_size=given.batch, num_epochs=given.epochs, skip_shuffle=True),
    )
    state = algorithm.init({name: jnp.asarray(array) for name, array in given.first.items()})
    key, clock = jax.random.PRNGKey(0), Clock()
    say(ready=True, versions={name: version(name) for name in ("fedjax", "jax")})
    for round in range(given.rounds):
        if not wait():
            return
        clock.begin()
        clients = []
        for place in range(given.cohorts.shape[1]):
            x, y = given.client(round, place)
            clients.append((place, fedjax.ClientDataset({"x": x, "y": y.astype(np.int32)}), key))
        state, _ = algorithm.apply(state, clients)
        jax.block_until_ready(state.params)
        if round + 1 == given.rounds:
            save(end, {name: np.asarray(array) for name, array in state.params.items()})
        clock.end()


main(*sys.argv[1:])
