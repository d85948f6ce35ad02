"""Settings of the GAN."""

from pydantic import Field

from understudy.learning import dsa
from understudy.synthesis.checkpoints import CourseSettings
from understudy.synthesis.gan.losses import Loss, Terms, Variant

SLIGHT: tuple[dsa.DsaKind, ...] = ("crop", "scale", "rotate")  # changes after which an image is as real as before


class GanSettings(CourseSettings):
    epochs: int = Field(default=150, ge=1)
    least_steps: int = Field(default=0, ge=0)  # few records: more epochs, until so many updates were made
    batch: int = Field(default=32, ge=1)
    variant: Variant = "diffaugment"
    loss: Loss = "non-saturating"
    augmentation: tuple[dsa.DsaKind, ...] | None = Field(default=None, min_length=1)  # None: the variant's own
    consistency: float = Field(default=10.0, ge=0)  # λ of variant: consistency
    negative: float = Field(default=0.25, ge=0, le=1)  # share of spoilt images of variant: negative
    lr: float = Field(default=5e-4, gt=0)  # of Adam, for both
    momentum: float = Field(default=0.5, ge=0, lt=1)  # β₁
    average: float = Field(default=0.998, ge=0, lt=1)  # of the painter's weights, the part that is kept in an update
    judge_steps: int = Field(default=1, ge=1)  # for one of the painter
    latent: int = Field(default=32, ge=1)
    width: int = Field(default=16, ge=1)  # channels at full size
    hidden: int = Field(default=128, ge=1)  # units of the judge's dense layer

    def steps(self, records: int) -> int:
        """Of the judge."""
        return max(self.epochs * -(-records // self.batch), self.least_steps)

    @property
    def kinds(self) -> tuple[dsa.DsaKind, ...]:
        """How images are augmented; what the judge must not notice at all is less than what it sees everywhere."""
        own = SLIGHT if self.variant == "consistency" else dsa.WITHOUT_FLIP
        return self.augmentation or own

    @property
    def augments(self) -> bool:
        """Whether images are, before the judge sees them."""
        return self.variant in ("diffaugment", "consistency")

    def paints_after(self, step: int) -> bool:
        """Whether the painter learns after this step of the judge, the first being 1."""
        return step % self.judge_steps == 0

    @property
    def terms(self) -> Terms:
        return Terms(self.variant, self.loss, self.consistency, self.negative)
