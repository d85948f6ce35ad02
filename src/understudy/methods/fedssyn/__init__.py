"""Fedssyn, in several files."""

from understudy.methods.fedssyn.fedssyn import Fedssyn, FedssynSettings

__all__ = ["Fedssyn", "FedssynSettings"]
