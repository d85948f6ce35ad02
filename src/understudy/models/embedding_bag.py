"""A network for tokens: a text is the mean of its tokens' embeddings, whatever their order."""

from typing import Annotated

from pydantic import Field
from torch import Tensor, nn

from understudy.base_settings import Settings
from understudy.data.problem import Problem
from understudy.models.classifier import Classifier
from understudy.models.zoo import model

PADDING = 0  # the id that counts for nothing


class EmbeddingBagSettings(Settings):
    dim: int = Field(default=64, ge=1)  # numbers in a token's embedding
    hidden: tuple[Annotated[int, Field(ge=1)], ...] = ()  # units of hidden layers behind the mean


class MeanEmbedding(nn.Module):
    """Ids (n, length) -> (n, dim); a text of nothing but padding is zeros.

    Not ``nn.EmbeddingBag``: this has a gradient for each record (`privacy.layers`) and for each place.
    """

    def __init__(self, tokens: int, dim: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(tokens, dim, padding_idx=PADDING)

    def forward(self, ids: Tensor) -> Tensor:
        counts = (ids != PADDING).to(self.embedding.weight.dtype)  # (n, length)
        placed: Tensor = self.embedding(ids)
        return (placed * counts[..., None]).sum(1) / counts.sum(1, keepdim=True).clamp(min=1)


@model("embedding-bag", settings=EmbeddingBagSettings, takes=("tokens",))
def embedding_bag(problem: Problem, settings: EmbeddingBagSettings) -> nn.Module:
    """Mean of the tokens' embeddings, 64 numbers each, and one linear layer; id 0 is padding and counts for nothing."""
    layers: list[nn.Module] = [MeanEmbedding(problem.tokens, settings.dim)]
    size = settings.dim
    for hidden in settings.hidden:
        layers += [nn.Linear(size, hidden), nn.ReLU()]
        size = hidden
    return Classifier(nn.Sequential(*layers), nn.Linear(size, problem.classes))
