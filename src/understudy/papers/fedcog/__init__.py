"""Tables and figures of FedCOG's paper."""

from understudy.papers.fedcog import (
    curves,
    federation_size,
    inverted_images,
    local_models,
    personal,
    plug_in,
    several_labels,
    timing,
    twelve_methods,
    variants,
)

STUDIES = (
    twelve_methods.STUDY,
    several_labels.STUDY,
    plug_in.STUDY,
    local_models.STUDY,
    timing.LOCAL_TIME_STUDY,
    variants.SCAN_STUDY,
    variants.ABLATION_STUDY,
    personal.STUDY,
    inverted_images.STUDY,
    variants.GENERATION_STUDY,
    timing.GENERATING_STUDY,
    federation_size.STUDY,
    curves.STUDY,
)
