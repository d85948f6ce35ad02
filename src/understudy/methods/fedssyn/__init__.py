"""Fedssyn, which takes more than one file."""

from understudy.methods.fedssyn.fedssyn import Fedssyn, FedssynSettings

__all__ = ["Fedssyn", "FedssynSettings"]
