"""Settings of the GAN."""

from pydantic import Field

from understudy.learning import dsa
from understudy.synthesis.gan.losses import Loss, Terms, Variant
from understudy.synthesis.generator import CourseSettings

SLIGHT: tuple[dsa.DsaKind, ...] = ("crop", "scale", "rotate")  # changes that leave an image as real as before


class GanSettings(CourseSettings):
    epochs: int = Field(default=150, ge=1)
    variant: Variant = "diffaugment"  # regularisation for few records
    loss: Loss = "non-saturating"  # loss of painter and judge
    # changes to images before they are judged; null: the variant's own
    augmentation: tuple[dsa.DsaKind, ...] | None = Field(default=None, min_length=1)
    consistency: float = Field(default=10.0, ge=0)  # λ, with variant: consistency
    negative: float = Field(default=0.25, ge=0, le=1)  # share of spoilt images, with variant: negative
    lr: float = Field(default=5e-4, gt=0)  # learning rate of Adam, for both networks
    momentum: float = Field(default=0.5, ge=0, lt=1)  # β₁ of Adam
    average: float = Field(default=0.998, ge=0, lt=1)  # share of the painter's averaged weights kept per update
    judge_steps: int = Field(default=1, ge=1)  # steps of the judge per step of the painter
    latent: int = Field(default=32, ge=1)  # length of the noise
    width: int = Field(default=16, ge=1)  # channels at full size
    hidden: int = Field(default=128, ge=1)  # units of the judge's dense layer

    @property
    def kinds(self) -> tuple[dsa.DsaKind, ...]:
        """How images are augmented; changes that the judge must ignore are milder than those it sees everywhere."""
        own = SLIGHT if self.variant == "consistency" else dsa.WITHOUT_FLIP
        return self.augmentation or own

    @property
    def augments(self) -> bool:
        """Whether images are augmented before the judge sees them."""
        return self.variant in ("diffaugment", "consistency")

    def paints_after(self, step: int) -> bool:
        """Whether the painter learns after this step of the judge, counted from 1."""
        return step % self.judge_steps == 0

    @property
    def terms(self) -> Terms:
        return Terms(self.variant, self.loss, self.consistency, self.negative)
