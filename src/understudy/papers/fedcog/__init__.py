"""Tables and figures of FedCOG's paper."""

from understudy.papers.fedcog import twelve_methods

STUDIES = (twelve_methods.STUDY,)
