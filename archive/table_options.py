"""The options of all commands of tables that say where the tables are, and errors of libraries as errors of a command."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from pyiceberg.catalog import Catalog as CatalogOfTables

from ..client.error_kinds import ErrorKind
from ..client.explained_errors import from_library
from ..client.properties import pairs
from ..client.user_errors import Misused, UserError
from ..columns import ScanError
from .iceberg import open_catalog
from .store import ArchiveError
from .topic_archive import SparkEnded, of_library

Warehouse = Annotated[
    Path | None,
    typer.Option("--warehouse", metavar="DIR", help="Iceberg tables in this folder, with a catalog of SQLite"),
]
Catalog = Annotated[
    list[str] | None,
    typer.Option(
        "--catalog", metavar="KEY=VALUE", help="a property of PyIceberg's catalog, such as uri=...; repeatable"
    ),
]
Parquet = Annotated[
    Path | None, typer.Option("--parquet", metavar="DIR", help="plain Parquet files in this folder, without a catalog")
]

_logger = logging.getLogger(__name__)

Namespace = Annotated[str, typer.Option("--namespace", metavar="NAME", help="of the tables")]
KeepSnapshots = Annotated[
    float, typer.Option("--keep-snapshots", metavar="SECONDS", help="age at which Iceberg snapshots expire")
]


def chosen_catalog(
    warehouse: Path | None, catalog: list[str] | None, parquet: Path | None, *, must_exist: bool = False
) -> Any:
    """The catalog of the options; None for Parquet. Raises Misused, ArchiveError."""
    folder = warehouse or parquet
    if must_exist and folder is not None and not folder.is_dir():
        raise ArchiveError(f"there is no folder {folder}")
    if sum(one is not None for one in (warehouse or catalog or None, parquet)) != 1:
        raise Misused("give --warehouse DIR, --catalog KEY=VALUE, or --parquet DIR")
    return None if parquet is not None else opened_catalog(warehouse, _properties(catalog))


def opened_catalog(warehouse: Path | None, properties: Mapping[str, str]) -> CatalogOfTables:
    """The catalog of a folder, or by PyIceberg's properties. Raises ArchiveError."""
    # PyIceberg logs each problem that it repeats or leaves; errors are raised.
    logging.getLogger("pyiceberg").setLevel(logging.ERROR)
    return open_catalog(warehouse, properties)


def _properties(catalog: list[str] | None) -> Mapping[str, str]:
    return pairs(catalog or [], "--catalog")


@contextmanager
def explained() -> Iterator[None]:
    """Raises errors as errors of a command: one line, and its exit status."""
    try:
        yield
    except UserError:
        raise
    except (ArchiveError, ScanError, SparkEnded) as error:
        raise UserError(str(error), getattr(error, "kind", ErrorKind.FAILED)) from None
    except (KeyboardInterrupt, BrokenPipeError):
        raise
    except Exception as error:  # of a catalog, of a file system, of Arrow
        _logger.debug("a command failed", exc_info=error)
        found = from_library(error) or of_library(error, "the table cannot be read or written")
        raise UserError(str(found), getattr(found, "kind", ErrorKind.FAILED)) from None
