"""pfl-research's federated averaging on its simulated backend: ``python pfl_rounds.py FOLDER END``."""

import sys

import pfl
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Weighted
from pfl.model.pytorch import PyTorchModel
from torch import nn
from torch.nn import functional
from turns import Clock, Given, save, say, wait


class Small(nn.Module):
    def __init__(self, features, width):
        super().__init__()
        self.features, self.head = features, nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.features(x))

    def loss(self, x, y, is_eval=False):
        return functional.cross_entropy(self(x), y)

    def metrics(self, x, y):
        return {"loss": Weighted(float(self.loss(x, y)) * len(y), len(y))}


def network(name):
    if name == "W1":
        return Small(nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU()), 64)
    layers = [nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2)]
    return Small(nn.Sequential(*layers, nn.Flatten()), 800)


class Turns(TrainingProcessCallback):
    """One round of its loop whenever it is our turn."""

    def __init__(self, given, net, end):
        self.given, self.net, self.end, self.clock, self.done = given, net, end, Clock(), 0

    def on_train_begin(self, *, model):
        say(ready=True, versions={"pfl": pfl.__version__, "torch": torch.__version__})
        self._next()
        return super().on_train_begin(model=model)

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
        self.done += 1
        if self.done == self.given.rounds:
            save(self.end, {name: tensor.detach().numpy() for name, tensor in self.net.state_dict().items()})
        self.clock.end()
        if self.done < self.given.rounds:
            self._next()
        return self.done == self.given.rounds, pfl.metrics.Metrics()

    def _next(self):
        if not wait():
            sys.exit()
        self.clock.begin()


def main(folder, end):
    torch.set_num_threads(1)
    given = Given(folder)
    net = network(given.name)
    net.load_state_dict({name: torch.from_numpy(array) for name, array in given.first.items()})
    cohort = given.cohorts.shape[1]
    asked = iter([(round, place) for round in range(given.rounds) for place in range(cohort)])

    def dataset(at):
        x, y = given.client(*at)
        return Dataset([torch.from_numpy(x), torch.from_numpy(y)], user_id=str(at))

    users = FederatedDataset(dataset, lambda: next(asked))
    model = PyTorchModel(net, torch.optim.SGD, torch.optim.SGD(net.parameters(), lr=1.0))
    local = NNTrainHyperParams(
        local_num_epochs=given.epochs, local_learning_rate=given.lr, local_batch_size=given.batch
    )
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=given.rounds,
            evaluation_frequency=10 * given.rounds,
            train_cohort_size=cohort,
            val_cohort_size=0,
        ),
        SimulatedBackend(training_data=users, val_data=users),
        model,
        local,
        NNEvalHyperParams(local_batch_size=None),
        callbacks=[Turns(given, net, end)],
    )


main(*sys.argv[1:])
