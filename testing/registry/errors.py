"""Errors of the schema registry, with Confluent's codes: https://docs.confluent.io/platform/current/schema-registry/develop/"""

from __future__ import annotations


class RegistryError(Exception):
    """A response that is an error. The first three digits of `code` are the HTTP status."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = code
        self.words = words

    @property
    def status(self) -> int:
        return int(str(self.code)[:3])


def subject_not_found(subject: str) -> RegistryError:
    return RegistryError(40401, f"Subject '{subject}' not found.")


def version_not_found(version: object) -> RegistryError:
    return RegistryError(40402, f"Version {version} not found.")


def schema_not_found(which: object = "") -> RegistryError:
    return RegistryError(40403, f"Schema {which} not found".replace("  ", " "))


def subject_soft_deleted(subject: str) -> RegistryError:
    return RegistryError(40404, f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently")


def subject_not_soft_deleted(subject: str) -> RegistryError:
    return RegistryError(40405, f"Subject '{subject}' was not deleted first before being permanently deleted")


def version_soft_deleted(subject: str, version: int) -> RegistryError:
    return RegistryError(
        40406,
        f"Subject '{subject}' Version {version} was soft deleted. Set permanent=true to delete permanently",
    )


def version_not_soft_deleted(subject: str, version: int) -> RegistryError:
    return RegistryError(
        40407, f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
    )


def level_not_configured(subject: str) -> RegistryError:
    return RegistryError(40408, f"Subject '{subject}' does not have subject-level compatibility configured")


def mode_not_configured(subject: str) -> RegistryError:
    return RegistryError(40409, f"Subject '{subject}' does not have subject-level mode configured")


def incompatible(subject: str, messages: list[str]) -> RegistryError:
    return RegistryError(
        409,
        f'Schema being registered is incompatible with an earlier schema for subject "{subject}", details: {messages}',
    )


def invalid_schema(words: object) -> RegistryError:
    return RegistryError(42201, f"Invalid schema: {words}")


def invalid_version(version: str) -> RegistryError:
    return RegistryError(
        42202,
        "The specified version '" + version + "' is not a valid version id. "
        'Allowed values are between [1, 2^31-1] and the string "latest"',
    )


def invalid_level(level: object) -> RegistryError:
    return RegistryError(
        42203,
        f"Invalid compatibility level {level!r}. Valid values are none, backward, forward, full, backward_transitive, "
        "forward_transitive, and full_transitive",
    )


def invalid_mode(mode: object) -> RegistryError:
    return RegistryError(
        42204, f"Invalid mode {mode!r}. Valid values are READWRITE, READONLY, READONLY_OVERRIDE, IMPORT"
    )


def not_permitted(words: str) -> RegistryError:
    return RegistryError(42205, words)


def reference_exists(subject: str, version: int) -> RegistryError:
    return RegistryError(
        42206,
        f"One or more references exist to the schema {{magic=1,keytype=SCHEMA,subject={subject},version={version}}}",
    )
