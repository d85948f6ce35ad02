"""Settings of FedLAP (`fedlap.py` explains the symbols), which FedLAP-DP uses with other defaults."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from understudy.base_settings import Settings
from understudy.federation.registry import KindDefaults
from understudy.learning.dsa import ALL, DsaKind
from understudy.learning.local import Local
from understudy.synthesis.gradient_matching import Criterion

MEASURED: Mapping[str, Callable[[Sequence[float]], float]] = {
    "min": min,
    "max": max,
    "median": statistics.median,
    "mean": statistics.fmean,
}


class FedLapSettings(Settings):
    restarts: int = Field(default=1, ge=1)  # R_i, paths per round
    stages: int = Field(default=5, ge=1)  # most stages per path
    real_batches: int = Field(default=40, ge=1)  # real batches per stage
    image_steps: int = Field(default=5, ge=1)  # R_b, steps of the images per real batch
    path_epochs: int = Field(default=0, ge=0)  # R_l, epochs on the images between two stages
    server_epochs: int = Field(default=100, ge=1)  # epochs of the server on all images
    radius: float = Field(default=10.0, gt=0)  # r, largest distance from w_g
    # r_g, from all r_k; constant: r, no r_k is sent; fixed: no radius, all epochs
    radius_rule: Literal["min", "max", "median", "mean", "constant", "fixed"] = "min"
    strict: bool = False  # the server undoes the step that leaves the ball
    mse: float = Field(default=0.1, ge=0)  # λ, weight of the squared distance
    rows: Literal["mean", "sum"] = "mean"  # how D combines the rows of a parameter tensor
    ipc: int = Field(default=50, ge=1)  # images per class
    labels: Literal["owned", "all"] = "owned"  # classes that a client makes: those it owns, or all
    init: Literal["real", "noise"] = "real"  # how images start; a class without records starts as noise
    image_lr: float = Field(default=100.0, gt=0)  # learning rate of the images; by default 1 for vectors and sequences
    image_momentum: float = Field(default=0.5, ge=0, lt=1)  # momentum of the images
    batch: int = Field(default=256, ge=1)  # real records in a batch, on average
    pool_batch: int = Field(default=512, ge=1)  # images in a batch, for training and matching
    lr: float = Field(default=0.1, gt=0)  # learning rate of the model, on clients and server
    schedule: Literal["constant", "cosine"] = "cosine"  # schedule of lr over the rounds
    weights: Literal["pool", "uniform", "size"] = "pool"  # weights of clients: by images, equal, or N_k/N
    dsa: bool = True  # differentiable augmentation; by default only for images
    dsa_kinds: tuple[DsaKind, ...] = ALL  # kinds to draw from; one is drawn per batch
    flip: bool = True  # allow flip; false for digits and letters

    @property
    def kinds(self) -> tuple[DsaKind, ...]:
        return tuple(kind for kind in self.dsa_kinds if self.dsa and (self.flip or kind != "flip"))

    @property
    def criterion(self) -> Criterion:
        return Criterion(self.rows, mse=self.mse)

    @property
    def most_batches(self) -> int:
        """Batches of real records in a round; fewer if a path leaves the ball."""
        return self.restarts * self.stages * self.real_batches

    def on_images(self, epochs: int) -> Local:
        return Local(epochs=epochs, batch=self.pool_batch, lr=self.lr, schedule=self.schedule)


GENTLER: KindDefaults = {"vector": {"image_lr": 1.0, "dsa": False}, "sequence": {"image_lr": 1.0, "dsa": False}}
PAPER = {"restarts": 1, "stages": 5, "real_batches": 40, "image_steps": 5, "path_epochs": 0, "radius": 10.0, "lr": 0.1}
FEW_ROUNDS = {"schedule": "constant"}  # cosine ends near 0: of three rounds the last would move nothing
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "paper": PAPER,  # CIFAR-10, 200 rounds
    "mnist": {**PAPER, "lr": 0.01, "flip": False},  # 60 rounds, like the next one
    "fashion-mnist": {**PAPER, "lr": 0.01},
    "desk": {**PAPER, "real_batches": 8, "ipc": 10, "batch": 128, "server_epochs": 50, **FEW_ROUNDS, "flip": False},
}
