"""Files that hold a table, as Arrow tables: Parquet, CSV (split at commas, semicolons or tabs) and TSV.

The first line of CSV names its columns. There are no types: a column whose cells are all numbers is one of numbers. An
empty cell and the usual words for nothing (NA, NaN, null, ?) are missing values.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from understudy.errors import UserError, missing_extra

PARQUET, TEXT = (".parquet",), (".csv", ".tsv")
ENDINGS = PARQUET + TEXT
DELIMITERS = ",;\t"
LARGEST_BLOCK = 2**31 - 1
TO_SCORE_ON = re.compile(r"(?<![a-z])(test|validation)(?![a-z])")


def holds_table(path: Path) -> bool:
    """Whether it is such a file, or a folder of them; a list in CSV beside folders of images is not meant."""
    if not path.is_dir():
        return path.suffix in ENDINGS
    return any(path.glob("[!.]*.parquet")) or (bool(_inside(path, TEXT)) and not any(map(Path.is_dir, path.iterdir())))


def files_of(path: Path) -> list[Path]:
    """In order of their names."""
    if not path.is_dir():
        return [path]
    files = _inside(path, PARQUET) or _inside(path, TEXT)
    if len({bool(TO_SCORE_ON.search(file.name)) for file in files}) > 1:
        raise UserError(
            f"{path} mixes files to learn from with files to score on; "
            "put them in two folders, train and test, or name the second with data.test."
        )
    return files


def _inside(folder: Path, endings: Sequence[str]) -> list[Path]:
    return sorted(file for file in folder.glob("[!.]*") if file.suffix in endings and file.is_file())


def read_file(file: Path, only: Sequence[str] | None = None) -> Any:
    """A ``pyarrow.Table``; ``only`` these columns, as far as it has them."""
    what = "CSV" if file.suffix in TEXT else "Parquet"
    try:
        import pyarrow as pa
    except ImportError:
        raise missing_extra(f"{file}, a {what} file,", "parquet") from None
    try:
        table = _csv(file, only) if file.suffix in TEXT else _parquet(file, only)
        table.validate(full=True)
        twice = len(set(table.column_names)) < table.num_columns
    except FileNotFoundError:
        raise UserError(f"There is no file {file}.") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as broken:
        said = " ".join(str(broken).split()).rstrip(".")
        raise UserError(f"{file} cannot be read as {what}: {said}.") from None
    if twice:
        raise UserError(f"{file} has two columns with the same name; rename one.")
    return table


def _parquet(file: Path, only: Sequence[str] | None) -> Any:
    from pyarrow.parquet import ParquetFile

    with ParquetFile(file, page_checksum_verification=True) as parquet:
        return parquet.read(columns=None if only is None else list(only))


def _csv(file: Path, only: Sequence[str] | None) -> Any:
    from pyarrow import csv

    with file.open(encoding="utf-8-sig") as text:
        heading = text.readline()
    delimiter = max(DELIMITERS, key=heading.count)
    # In one block: a column's type is guessed from the first one.
    block = min(file.stat().st_size + 1, LARGEST_BLOCK)
    table = csv.read_csv(
        file,
        read_options=csv.ReadOptions(block_size=block, use_threads=False),
        parse_options=csv.ParseOptions(delimiter=delimiter),
        convert_options=csv.ConvertOptions(strings_can_be_null=True, null_values=_nothing(csv)),
    )
    table = table.rename_columns([name.strip() for name in table.column_names])
    return table if only is None else table.select([name for name in only if name in table.column_names])


def _nothing(csv: Any) -> list[str]:
    """What stands for a missing value: Arrow's words, and the ? of the UCI repository and Weka."""
    return [*csv.ConvertOptions().null_values, "?"]
