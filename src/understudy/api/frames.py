"""Tables for pandas, where it is installed."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from understudy.errors import UserError

if TYPE_CHECKING:
    import pandas


def frame_of(rows: Sequence[Mapping[str, Any]]) -> "pandas.DataFrame":
    try:
        import pandas
    except ModuleNotFoundError:
        raise UserError("A frame needs pandas, which is not installed here: pip install pandas.") from None
    return pandas.DataFrame([dict(row) for row in rows])
