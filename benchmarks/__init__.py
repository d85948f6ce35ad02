"""Speed and memory, always as a ratio in one run: ``make bench``."""

from pathlib import Path

PARCELS = f"{Path(__file__).resolve().with_name('parcels.py')}:Parcels"  # a method that sends noise
