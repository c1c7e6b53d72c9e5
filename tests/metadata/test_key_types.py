"""The types of configuration values by key: `metadata/configs/key_types.py` has what the tables have.

python -m tests.metadata.test_key_types --write     writes the file again
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from odradek.metadata.configs import ConfigKey, ConfigType
from odradek.metadata.configs.resources import BROKER, OWN, TOPIC

ROOT = Path(__file__).parents[2]
FILE = ROOT / "metadata/configs/key_types.py"
TYPES = {
    ConfigType.BOOLEAN: "bool",
    ConfigType.INT: "int",
    ConfigType.SHORT: "int",
    ConfigType.LONG: "int",
    ConfigType.DOUBLE: "float",
    ConfigType.STRING: "str",
    ConfigType.CLASS: "str",
    ConfigType.LIST: "tuple[str, ...]",
    ConfigType.PASSWORD: "Password",
}
#: The names of the aliases, by the type of the value.
ALIASES = {
    "bool": "BooleanKey",
    "int": "IntegerKey",
    "int | None": "OptionalIntegerKey",
    "float": "FloatKey",
    "str": "TextKey",
    "str | None": "OptionalTextKey",
    "tuple[str, ...]": "ListKey",
    "tuple[str, ...] | None": "OptionalListKey",
    "Password | None": "OptionalPasswordKey",
}
HEAD = '''"""The type of a configuration's value by its key, for the type checker.

Written from the tables by `python -m tests.metadata.test_key_types --write`; nothing imports it at run time.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, TypedDict
'''


def type_of(key: ConfigKey) -> str:
    """Returns the type of the values of a key, which has None where no default is."""
    optional = "" if key.required or key.default_value is not None else " | None"
    return TYPES[key.type] + optional


def alias(name: str, keys: Iterable[str]) -> str:
    lines = "".join(f'    "{key}",\n' for key in sorted(keys))
    return f"{name}: TypeAlias = Literal[\n{lines}]\n"


def expected_text() -> str:
    by_type: dict[str, list[str]] = defaultdict(list)
    for name, key in (BROKER | OWN).items():
        by_type[type_of(key)].append(name)
    aliases = "".join(
        f"#: Keys of a broker whose value is `{kind}`.\n{alias(ALIASES[kind], by_type[kind])}" for kind in ALIASES
    )
    assert by_type.keys() <= ALIASES.keys(), (
        "a new type of values: name its keys in ALIASES and overload BrokerConfig.get"
    )
    fields = "".join(f'        "{name}": {type_of(key)},\n' for name, key in sorted(TOPIC.items()))
    topic = '#: The effective values of a topic.\nTopicValues = TypedDict(\n    "TopicValues",\n'
    topic += f"    {{\n{fields}    }},\n)\n"
    return f"{HEAD}\n{aliases}{topic}"


def test_types_of_keys_are_those_of_the_tables() -> None:
    assert FILE.read_text(encoding="utf-8") == expected_text(), "run `python -m tests.metadata.test_key_types --write`"


if __name__ == "__main__":
    assert "--write" in sys.argv, __doc__
    FILE.write_text(expected_text(), encoding="utf-8")
