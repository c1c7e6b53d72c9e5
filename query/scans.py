"""The scans of a query, by the names of their tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..admin.connection import Connection
from ..cli.messages import warn
from ..client.properties import is_of_store
from ..client.wording import counted
from ..columns.dataset import ScanDataset, UndecodableDataset
from ..columns.errors import Unread
from ..columns.scan import Scan, scan, with_values
from ..columns.typed_rows import UNDECODABLE
from ..columns.value_schema import ValueSchema

#: End of the name of a table of records that do not decode.
_SUFFIX = ".undecodable"
#: Limit of the text of an inferred type.
_SHOWN_CHARACTERS = 300
#: Timestamps that DuckDB has, in ms: its own are of 64 bits and in microseconds.
_FIRST_MS, _LAST_MS = -9_223_372_022_400_000, 9_223_372_036_854_774


class QueryScans:
    """The scans of a query, by the names of their tables."""

    def __init__(
        self,
        connection: Connection,
        data_dir: Path | None,
        options: dict[str, Any],
        as_text: bool,
        values: ValueSchema | None,
    ) -> None:
        self._connection = connection
        self._data_dir = data_dir
        self._options = options
        self._as_text = as_text
        self._values = values
        self._unread: dict[Unread, None] = {}
        self._left_out: dict[str, int] = {}
        self._undated: dict[str, tuple[int, int]] = {}
        self._inferred: dict[str, str] = {}
        #: The first error that a reading has raised.
        self.failure: Exception | None = None

    def table(self, name: str) -> ScanDataset | UndecodableDataset:
        """The dataset of a topic, or of its records that do not decode: TOPIC.undecodable."""
        if name.endswith(_SUFFIX) and self._values is not None:
            return UndecodableDataset(self._scan(name.removesuffix(_SUFFIX)), UNDECODABLE)
        return ScanDataset(self._scan(name))

    def _scan(self, topic: str) -> Scan:
        if self._data_dir is not None:
            properties = self._connection.properties
            store = {name: value for name, value in properties.items() if is_of_store(name, properties)}
            made = scan(self._data_dir / topic, client=store, **self._options)
        else:
            made = scan(topic, client=self._connection.properties, **self._options)
        if self._values is not None:
            made = with_values(made, self._values)
        if self._as_text:
            made = made.as_text(["key"] if self._values is not None else ["key", "value"])
        made = made.with_dates(_FIRST_MS, _LAST_MS)
        made.on_end, made.on_error = self._note, self._failed
        return made

    def _failed(self, error: Exception) -> None:
        self.failure = self.failure or error

    def _note(self, scanned: Scan) -> None:
        self._unread |= dict.fromkeys(scanned.unread)
        if scanned.inference is not None:
            self._inferred[scanned.plan.topic] = str(scanned.inference)
        if scanned.undated is not None:
            self._undated[scanned.plan.topic] = scanned.undated
        self._left_out[scanned.plan.topic] = max(
            self._left_out.get(scanned.plan.topic, 0), scanned.undecodable.num_rows
        )

    def warn(self) -> None:
        for one in self._unread:
            warn(str(one))
        for topic, words in self._inferred.items():
            shown = words if len(words) <= _SHOWN_CHARACTERS else f"{words[:_SHOWN_CHARACTERS]}..."
            warn(f"{topic}: value is {shown}; --value-schema FILE fixes it")
        for topic, (example, number) in self._undated.items():
            warn(
                f"{number} timestamps of {topic} are beyond the years of SQL, such as {example} ms, and are null; "
                f"`odradek consume {topic} --output jsonl` has the numbers"
            )
        for topic, count in self._left_out.items():
            if count:
                warn(
                    f"{counted(count, 'undecodable value')} of {topic} became null: the column value_error, and the table "
                    f'"{topic}{_SUFFIX}", have the reasons'
                )
