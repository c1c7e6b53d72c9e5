"""Random records with a secret in a masked field, dressed so that readers may take them for no document.

`SecretRecord.secret` stands in the record once or more; no response of the console may have it, in any encoding.
"""

from __future__ import annotations

import base64
import gzip
import json
import random
import re
import string
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import quote

#: Masks, and the path of the field that each hides.
MASKS: dict[str, tuple[str, ...]] = {
    "password": ("password",),
    "*pass*": ("old_PassWord",),
    "card.number": ("card", "number"),
    "card.*": ("CARD", "cvv"),
    "p*word": ("PassWord",),
    "user*.t*n": ("user_data", "token"),
    "pattern:S3C[A-Za-z0-9]+": ("anything",),
}
_DEPTH = 300


@dataclass
class SecretRecord:
    mask: str
    secret: str
    dress: str
    key: bytes | None = None
    value: bytes | None = None
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)


def _document(path: tuple[str, ...], secret: str, rng: random.Random) -> object:
    """A document with the secret at the end of the path, at any depth, with other fields beside it."""
    made: object = rng.choice([secret, [secret], {"inner": secret}, secret])
    for name in reversed(path):
        made = {"id": rng.randrange(100), name: made, "note": "plain text"}
    for _ in range(rng.randrange(3)):
        made = rng.choice([{"outer": made}, [made, None], {"a": [{"b": made}]}])
    return made


def _twice(text: str, path: tuple[str, ...], secret: str) -> str:
    name = json.dumps(path[-1])
    inner = f'{{{name}: 1, {name}: "{secret}", {name}: "{secret}", "n": 1.10}}'
    for one in reversed(path[:-1]):
        inner = f"{{{json.dumps(one)}: {inner}}}"
    return inner


def _avro(text: str, path: tuple[str, ...], secret: str) -> bytes:
    """A record of one or two texts, as Avro has it, without a schema."""
    return b"".join(bytes([2 * len(one)]) + one.encode() for one in ("ada", secret))


def _escaped(text: str) -> str:
    """Each letter of names and values as an escape."""
    return "".join(f"\\u{ord(one):04x}" if one.isalnum() and one not in "truefalsn0123456789" else one for one in text)


def _long_avro(text: str, path: tuple[str, ...], secret: str) -> bytes:
    """Two texts of Avro whose lengths look like letters: a word to its reader."""
    return b"".join(bytes([2 * len(one)]) + one.encode() for one in ("a" * 24, secret))


def _protobuf(text: str, path: tuple[str, ...], secret: str) -> bytes:
    """A message of Protobuf with one text in its field 12, whose tag and length look like letters."""
    return bytes([12 << 3 | 2, len(secret) + 16]) + secret.encode() + b"a" * 16


def _packed(text: str, path: tuple[str, ...], secret: str) -> bytes:
    """A map of MessagePack for each name of the path."""
    names = b"".join(bytes([0x81, 0xA0 | len(one)]) + one.encode() for one in path)
    return names + bytes([0xD9, len(secret)]) + secret.encode()


def _token(text: str) -> str:
    """A JSON Web Token with the document as its claims."""
    parts = (b'{"alg":"none"}', text.encode(), b"signature")
    return ".".join(base64.urlsafe_b64encode(one).decode().rstrip("=") for one in parts)


def _in_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _parameters(path: tuple[str, ...], secret: str) -> str:
    """An address with the path and the secret, each second letter of the names as an escape."""
    name = "".join(f"%{ord(one):02x}" if number % 2 else one for number, one in enumerate(".".join(path)))
    return f"/search?user=7&{name}={secret}"


Dress = Callable[[str, tuple[str, ...], str], "str | bytes"]
#: Ways to write a document so that some reader takes it for something else.
DRESSES: dict[str, Dress] = {
    "plain": lambda text, path, secret: text,
    "leading blank": lambda text, path, secret: " \n\t" + text,
    "byte order mark": lambda text, path, secret: "\ufeff" + text,
    "byte order mark and blank": lambda text, path, secret: "\ufeff \ufeff" + text,
    "no-break space": lambda text, path, secret: "\u00a0" + text,
    "zero byte": lambda text, path, secret: "\0" + text,
    "schema id": lambda text, path, secret: b"\0\0\0\0\7" + text.encode(),
    "trailing bytes": lambda text, path, secret: text + " x",
    "trailing comma": lambda text, path, secret: text + ",",
    "two documents": lambda text, path, secret: f"{text}\n{text}",
    "cut": lambda text, path, secret: text[:-1],
    "not UTF-8": lambda text, path, secret: text.encode() + b"\xff",
    "long integer": lambda text, path, secret: f'{{"n": {"7" * 4400}, "x": {text}}}',
    "long fraction": lambda text, path, secret: f"[{'7' * 400}.{'1' * 400}e99999, {text}]",
    "deep lists": lambda text, path, secret: "[" * _DEPTH + text + "]" * _DEPTH,
    "deep objects": lambda text, path, secret: '{"a":' * _DEPTH + text + "}" * _DEPTH,
    "very deep": lambda text, path, secret: "[" * 50_000 + text + "]" * 50_000,
    "text of JSON": lambda text, path, secret: json.dumps(text),
    "text of a text of JSON": lambda text, path, secret: json.dumps(json.dumps(text)),
    "JSON in a field": lambda text, path, secret: json.dumps({"payload": text}),
    "JSON in a field in JSON in a field": lambda text, path, secret: json.dumps({"p": json.dumps({"q": [text]})}),
    "cut JSON in a field": lambda text, path, secret: json.dumps({"payload": f"event: {text}"}),
    "JSON in a name": lambda text, path, secret: json.dumps({text: 1}),
    "base64 in a field": lambda text, path, secret: json.dumps({"p": base64.b64encode(text.encode()).decode()}),
    "base64": lambda text, path, secret: base64.urlsafe_b64encode(text.encode()).rstrip(b"="),
    "hex in a field": lambda text, path, secret: json.dumps({"p": text.encode().hex()}),
    "hex": lambda text, path, secret: text.encode().hex(),
    "address": lambda text, path, secret: f"body={quote(text)}",
    "escapes": lambda text, path, secret: _escaped(text),
    "repeated field": _twice,
    "name with a dot": lambda text, path, secret: json.dumps({".".join(path): secret}),
    "UTF-16": lambda text, path, secret: text.encode("utf-16"),
    "UTF-32": lambda text, path, secret: text.encode("utf-32-le"),
    "Avro without a schema": _avro,
    "Avro of long texts": _long_avro,
    "Protobuf without a schema": _protobuf,
    "token": lambda text, path, secret: _token(text),
    "token in a field": lambda text, path, secret: json.dumps({"auth": f"Bearer {_token(text)}"}),
    "address of data in a field": lambda text, path, secret: json.dumps(
        {"link": f"data:application/json;base64,{_in_base64(text.encode())}"}
    ),
    "address with escapes in a field": lambda text, path, secret: json.dumps({"link": _parameters(path, secret)}),
    "line of a log in a field": lambda text, path, secret: json.dumps({"line": f"at=1 {'.'.join(path)}={secret} ok"}),
    "YAML in a field": lambda text, path, secret: json.dumps({"p": ":\n  ".join(path) + f": {secret}"}),
    "MessagePack": _packed,
    "MessagePack in a field": lambda text, path, secret: json.dumps({"p": _in_base64(_packed(text, path, secret))}),
    "MessagePack in hex in a field": lambda text, path, secret: json.dumps({"p": _packed(text, path, secret).hex()}),
    "Avro in a field": lambda text, path, secret: json.dumps({"p": _in_base64(_avro(text, path, secret))}),
    "Avro in hex in a field": lambda text, path, secret: json.dumps({"p": "0x" + _avro(text, path, secret).hex()}),
    "gzip in a field": lambda text, path, secret: json.dumps({"p": _in_base64(gzip.compress(text.encode()))}),
    "zlib in a field": lambda text, path, secret: json.dumps({"p": _in_base64(zlib.compress(text.encode()))}),
    "zlib in hex in a field": lambda text, path, secret: json.dumps({"p": f"h={zlib.compress(text.encode()).hex()}"}),
    "lines of base64 in a field": lambda text, path, secret: json.dumps(
        {"p": base64.encodebytes(text.encode()).decode()}
    ),
    "XML": lambda text, path, secret: f"<{path[-1]}>{secret}</{path[-1]}>",
    "halves of a pair": lambda text, path, secret: f'{{"h": "\\ud800", "x": {text}}}',
    "not a number": lambda text, path, secret: f'{{"h": NaN, "x": {text}}}',
}


def dressed(rng: random.Random, mask: str, dress: str) -> tuple[str, bytes]:
    """A secret, and a dressed document that has it."""
    path = MASKS[mask]
    secret = "S3C" + "".join(rng.choices(string.ascii_letters + string.digits, k=29))
    made = DRESSES[dress](json.dumps(_document(path, secret, rng)), path, secret)
    return secret, made if isinstance(made, bytes) else made.encode()


def random_record(rng: random.Random, mask: str, dress: str) -> SecretRecord:
    """The secret stands in the value, the key or a header."""
    path = MASKS[mask]
    secret, data = dressed(rng, mask, dress)
    made = SecretRecord(mask, secret, dress)
    place = rng.choice(["value", "value", "key", "header"])
    if place == "value":
        made.value, made.key = data, b"k1"
    elif place == "key":
        made.key, made.value = data, b'{"a": 1}'
    else:
        made.value = b'{"a": 1}'
        named = [(path[0], secret.encode())] if len(path) == 1 else []
        made.headers = [("trace", data), *named, ("null", None)]
    return made


def traces_of(secret: str) -> list[str]:
    """The secret in every encoding in which a response may have it."""
    data = secret.encode()
    made = [secret, data.hex(), data.hex(" "), secret[::-1], "\0".join(secret), quote(secret, safe="")]
    for offset in range(2):
        grouped = (b"\0" * offset + data).hex(" ", -2)
        made.append(grouped[5 * 2 : -5])
    for offset in range(3):
        coded = base64.b64encode(b"\0" * offset + data).decode()
        made.append(coded[4:-4])
        made.append(coded[4:-4].translate(str.maketrans("+/", "-_")))
    made.append("".join(f"\\u{ord(one):04x}" for one in secret)[6:-6])
    return made


def unpacked(text: str) -> list[str]:
    """The contents of what is compressed within a text, as base64 or hex."""
    made = []
    for run in re.findall(r"[A-Za-z0-9+/]{24,}", text):
        for data in (base64.b64decode(run + "=" * (-len(run) % 4) if len(run) % 4 != 1 else run[:-1]), _hex(run)):
            for start in range(8):
                try:
                    made.append(
                        zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(data[start:]).decode(errors="replace")
                    )
                except zlib.error:
                    continue
    return made


def _hex(run: str) -> bytes:
    try:
        return bytes.fromhex(run)
    except ValueError:
        return b""
