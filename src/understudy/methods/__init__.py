"""One file per published method. A file in this folder is found by its registration; nothing else needs editing."""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
