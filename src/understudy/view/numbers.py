"""Numbers formatted for people."""

from understudy.files import MEGABYTE

NONE = "–"


def percent(share: float | None) -> str:
    """0.9638 -> 96.4 %"""
    return NONE if share is None else f"{100 * share:.1f} %"


def megabytes(count: float) -> str:
    """In units of 10⁶ bytes, without the unit; small amounts keep more digits so that they do not look like zero."""
    amount = count / MEGABYTE
    return f"{amount:,.1f}" if amount >= 10 or amount == 0 else never_nothing(amount, 2)


def never_nothing(value: float, places: int) -> str:
    """8.0397 -> 8.04, and 0.0012 -> 0.001 instead of 0.00: zero would mean that nothing was sent or spent."""
    return f"{value:.{places}f}" if value == 0 or value >= 10**-places else f"{value:.1g}"


def epsilon_shown(value: float | None, places: int = 2) -> str:
    return NONE if value is None else never_nothing(value, places)


def size(count: float) -> str:
    """33280 -> 33 kB"""
    for unit, least in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= least:
            amount = count / least
            return f"{amount:.1f} {unit}" if amount < 10 else f"{amount:,.0f} {unit}"
    return f"{count:.0f} B"


def duration(seconds: float) -> str:
    """75 -> 1:15"""
    minutes, rest = divmod(round(max(seconds, 0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
