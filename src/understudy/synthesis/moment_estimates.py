"""What noised sums tell: class means, the axes along which records differ, the covariance of each class, and images.

The counterpart of what parties send in the method `moments`. Sums are (parties, numbers) in double precision: counts
with the factor a, the rest with b, and noise of one known standard deviation in every number.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from understudy.synthesis.class_sums import Weighing, edge, principal, root, trimmed, unpacked

Found = Mapping[str, Tensor]
STRETCH = 0.25  # v along an axis of variance λ is stretched by λ^−¼: halfway to equal lengths
FLATTEST = 1e-3  # of the largest variance: flatter axes are stretched no further
LEAST = 0.01  # of ‖u‖²: noise never makes records all alike


@dataclass(frozen=True)
class Estimates:
    classes: int
    d: int  # numbers of u
    width: int  # axes along which classes have their own covariance
    counted: float  # a²; b² = 1 − a²
    trim: float  # how far eigenvalues shrink, in units of what noise alone would reach

    @property
    def factors(self) -> tuple[float, float]:
        """a and b."""
        return math.sqrt(self.counted), math.sqrt(1 - self.counted)

    def means(self, sums: Tensor, noise: float) -> Found:
        """From counts, Σ ‖u‖² and Σ u for each class; ``within`` is the mean of ‖u − m_c‖²."""
        a, b = self.factors
        a /= math.sqrt(2)  # shared by counts and Σ ‖u‖²
        counts, squares, by_class = torch.split(sums, [self.classes, 1, self.classes * self.d], 1)
        weighing = Weighing.by(counts / a, noise / a)
        means = weighing.mean(by_class.view(-1, self.classes, self.d) / b)
        size = squares.sum() / counts.sum().clamp(min=a)
        between = means.square().sum(1) - self.d * (weighing.noise * noise / b).square()  # less what noise adds
        within = torch.maximum(size - (weighing.shares * between).sum(), LEAST * size.clamp(min=LEAST))
        return {"means": means, "counts": weighing.counts, "within": within}

    def axes(self, sums: Tensor, noise: float, within: Tensor) -> Found:
        """From a count and Σ v vᵀ of all classes, v = (u − m_c) / √within."""
        a, b = self.factors
        records = (sums[:, 0].sum() / a).clamp(min=1)
        shared = unpacked(sums[:, 1:].sum(0) / (b * records), self.d)
        alone = edge(noise * math.sqrt(len(sums)) / (b * float(records)), self.d)
        axes, variances = principal(shared, self.trim * alone)
        return {"axes": axes, "variances": variances * within.double()}

    def own(self, sums: Tensor, noise: float, found: Found) -> Found:
        """From counts and Σ v vᵀ of each class along the stretched axes: L, with L Lᵀ the covariance of a class."""
        a, b = self.factors
        axes, reach = self.stretched(found)
        stretch, shared = axes.double().norm(dim=0), found["variances"][: self.width].double()
        weighing = Weighing.by(sums[:, : self.classes] / a, noise / a)
        squares = weighing.mean(sums[:, self.classes :].view(len(sums), self.classes, -1) / b)
        common, roots = torch.diag(shared * stretch.square()), []
        for square, count, alone in zip(squares, weighing.counts, weighing.noise * noise / b, strict=True):
            apart = unpacked(square, self.width) * reach.double() ** 2 - common
            apart = trimmed(apart, self.trim * edge(float(alone), self.width) * float(reach) ** 2)
            roots.append(root(common + apart if count > 0 else common) / stretch[:, None])
        return {"own": torch.stack(roots)}

    def stretched(self, found: Found) -> tuple[Tensor, Tensor]:
        """The first axes, (d, width), each stretched, and the typical norm of a record along them."""
        axes, variances = found["axes"][:, : self.width], found["variances"][: self.width]
        stretch = (variances / variances[0].clamp(min=LEAST**2)).clamp(min=FLATTEST) ** -STRETCH
        return axes * stretch, (variances * stretch.square()).sum().clamp(min=LEAST**2).sqrt()

    def drawn(self, found: Found, c: int, many: int, rng: torch.Generator) -> Tensor:
        """(many, d) from N(m_c, Σ_c), with what is known of Σ_c so far."""
        z = torch.randn(many, self.d, generator=rng)
        if "axes" not in found:
            return found["means"][c] + z * (found["within"] / self.d).sqrt()
        along = z * found["variances"].sqrt()
        if "own" in found:
            along[:, : self.width] = z[:, : self.width] @ found["own"][c].T
        return found["means"][c] + along @ found["axes"].T
