"""One file a published method. A file in this folder is found by its registration; nothing else is edited."""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
