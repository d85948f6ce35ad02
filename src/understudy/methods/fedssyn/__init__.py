"""Fedssyn, in several files."""

from understudy.methods.fedssyn.fedssyn import Fedssyn as Fedssyn
