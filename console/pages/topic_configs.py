"""The configs of a topic: each row of the table is a form that changes one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request

from ...admin.config_alteration import alter_configs
from ...admin.configs import ConfigValue, Kind, describe_configs
from ...admin.errors import ResponseError
from ...client.properties import HIDDEN
from ..access.sessions import FLASH_COOKIE
from ..actions import Done, Fields, required
from ..addresses import path_to
from ..backend import Backend
from ..command_templates import command_of
from ..config_values import in_unit_of, with_unit
from ..formats import NONE
from ..parts import Badge, Cell, Effect, Field, Form, Page, Part, Table, Text
from .described_topic import described
from .topic_changes import deletion
from .topic_head import CONFIGURATION, topic_page

if TYPE_CHECKING:
    from ...admin.session import Admin

_SOURCES = {
    "DYNAMIC_TOPIC_CONFIG": "this topic",
    "DYNAMIC_BROKER_CONFIG": "a broker, dynamic",
    "DYNAMIC_DEFAULT_BROKER_CONFIG": "all brokers, dynamic",
    "STATIC_BROKER_CONFIG": "the broker's configuration file",
    "DEFAULT_CONFIG": "default",
}
_CHOICES = {
    "compression.type": ("producer", "gzip", "snappy", "lz4", "zstd", "uncompressed"),
    "cleanup.policy": ("delete", "compact", "compact,delete"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime"),
}


def configuration(backend: Backend, request: Request) -> Page:
    name = request.path_params["topic"]
    with backend.links.admin() as admin:
        described(admin, name, is_new=FLASH_COOKIE in request.cookies)
        configs = _configs(backend, admin, name)
    page = topic_page(backend, name, CONFIGURATION, [])
    page.below = [configs, deletion(backend, name)]
    return page


def _configs(backend: Backend, admin: Admin, name: str) -> Part:
    try:
        return _config_table(backend, name, describe_configs(admin, Kind.TOPIC, name))
    except ResponseError as error:
        return Text(f"Configs: {error}")


def _config_table(backend: Backend, name: str, configs: dict[str, ConfigValue]) -> Table:
    """Configs that differ from their default first. Each row has a form, whose empty value is the default."""
    rows = sorted(configs.items(), key=lambda one: (not _differs(*one), one[0]))
    shown = [
        (
            key,
            _config_form(backend, name, key, value),
            with_unit(key, value.value),
            Badge("differs", "warn") if _differs(key, value) else "",
            _default_of(key, value),
            _SOURCES.get(value.config_source, str(value.config_source).lower()),
        )
        for key, value in rows
    ]
    return Table("Configs", ("Key", "Value", "Reads as", "Differs", "Default", "Source"), shown)


def _config_form(backend: Backend, name: str, key: str, value: ConfigValue) -> Cell:
    if value.is_sensitive or value.read_only:
        return HIDDEN if value.is_sensitive else value.value
    now = str(value.value if value.value is not None else "")
    label = f"Value of {key}; empty: its default"
    choices = ("true", "false") if now in ("true", "false") else _CHOICES.get(key, ())
    if choices:
        # A select has no empty text: its first choice is the default.
        options = ("", *choices) if now in choices else ("", now, *choices)
        field = Field("config_value", label, now, "select", options, labels={"": "its default"})
    else:
        field = Field("config_value", label, now)
    return Form(
        f"Set {key} of {name}",
        f"{path_to('topics', name)}/config",
        [Field("name", "", key, "hidden"), field],
        "Set",
        effects=[Effect(key, _as_read(key, now), "{config_value}")],
        command=command_of(backend, "config", "set", "topic", name, template=f" {key}={{config_value}}"),
    )


def _as_read(key: str, value: str) -> str:
    unit = with_unit(key, value)
    return f"{value} ({unit})" if unit else value


def _differs(key: str, value: ConfigValue) -> bool:
    return bool(value.config_source != "DEFAULT_CONFIG" and value.value != _default_of(key, value))


def _default_of(key: str, value: ConfigValue) -> str:
    """The value without the topic's own: of the broker's configuration, or Kafka's."""
    own = "DYNAMIC_TOPIC_CONFIG"
    for one in value.synonyms:
        if one.source != own:
            return in_unit_of(key, one.name, str(one.value))
    return str(value.value) if value.config_source != own else NONE


def set_config(backend: Backend, form: Fields) -> Done:
    name, key, value = form["topic"], required(form, "name"), form.get("config_value", "").strip()
    change = ("SET", value) if value else ("DELETE", None)
    with backend.links.admin() as admin:
        alter_configs(admin, "topic", name, {key: change}, dry_run=False)
    words = f"{key} of {name} was set." if value else f"{key} of {name} was reset to its default."
    return Done(words, path_to("topics", name, CONFIGURATION))
