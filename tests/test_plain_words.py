"""The words of code and pages: the field's terms, and sentences that begin with their subject or their verb."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.harness.facts import kept_facts
from tests.harness.prose import comments_and_docstrings, statements_of, tokens_in, tokens_of
from tests.harness.sources import files, nodes_of, text_of

ROOT = Path(__file__).resolve().parents[1]
#: Words that no docstring, heading or test begins with: they hide the noun.
VAGUE = frozenset(["who", "whoever", "whose", "whom", "which", "what", "that", "it", "its", "of", "nobody", "somebody"])
#: Words for processes and data that name no actor, in names of tests.
UNCLEAR_IN_TESTS = {
    "who", "whoever", "whom", "nobody", "somebody", "told", "tells", "tell", "vain", "hears", "knows", "speaks",
    "planted", "played", "plays",
}  # fmt: skip
#: Home-made names, and the terms of the field that replaced them.
TERMS = {
    "RESTING": "NOT_IN_TRANSACTION", "REACHED_FROM": "VALID_PREVIOUS_STATES", "LINES": "FETCHERS_PER_SOURCE",
    "PeerFault": "ProtocolViolation", "SteadyClock": "MonotonicClock", "even_clock": "MonotonicClock",
    "uncollected": "without_gc", "Chance": "RandomSource", "chance": "rng", "upkeep": "maintenance", "Upkeep": "Maintenance",
    "note_doomed": "schedule_segment_deletion", "doom": "schedule_delete", "Dirt": "DirtyRange", "Cold": "NotInPageCache",
    "is_warm": "in_page_cache", "uneven": "heterogeneous_assignor", "take_step": "reconcile_member",
    "stepping": "reconciliation", "drawn_id": "generated_member_id", "NOTHING_SAID": "EMPTY_METADATA",
    "Wish": "AcquireRequest", "Stretch": "AcquiredRange", "makes_room": "replaceable_when_empty", "disturb": "wake_all",
    "grew": "on_bytes_available", "holds_up": "is_throttled", "is_held_up": "is_throttled", "news": "changed_partitions",
    "unsettled": "active_partitions", "_passes_by": "_skip_idle", "Taken": "LeadershipStart",
    "_ALONE": "_SINGLE_NODE_DEFAULTS", "introduce": "add_listener_endpoints", "_meet_the_quorum": "_join_quorum",
    "_put_aside": "_rename_stray",
    "put_aside": "rename_damaged", "letter": "dead_letter", "letters": "dead_letter_records", "buried": "dead_lettered",
    "planted": "injected", "refusal": "rejection", "Refusal": "Rejection", "refusals": "error_results",
    "refused_batches": "rejected_batches", "RefusedRequest": "RequestError", "NOBODY": "NO_NODE", "told": "reported",
    "play": "execute", "Play": "Scenario", "player": "runner", "Player": "Runner", "settled": "until_idle",
}  # fmt: skip
#: The same for prose: comments, docstrings, pages.
PHRASES = {
    r"set in sync|in[- ]sync set": "ISR",
    r"one word at a time": "one request in flight",
    r"in vain": "the condition and the outcome",
    r"planted bugs?": "injected bug",
    r"takes power away": "power loss",
    r"former self": "previous incarnation",
    r"[Ll]one broker": "single node",
    r"\bby chance\b": "at random",
    r"\bupkeep\b": "maintenance",
}
#: Words that name no actor, or personify a process. Prose of these packages and of the pages has none of them.
UNCLEAR_IN_PROSE = re.compile(
    r"\b(?:(?:is|are) (?:told|asked)|hears|speaks|knows|says|in vain|elsewhere|whoever|nobody|somebody)\b",
    re.IGNORECASE,
)
PACKAGES = (
    "protocol", "metadata", "storage", "replication", "coordinator", "server", "archive", "cli", "columns", "console",
    "admin", "records", "spark", "testing", "tiers",
    "tests", "compat_tests", "benchmarks", "spark_examples",
)  # fmt: skip
#: Packages that say `response` and `respond` in names, prose and messages.
RESPONSES = ("cli", "console")
ANSWER = re.compile("answer", re.IGNORECASE)
#: As a name, a part of a name, or a noun in a sentence; `answered` and "answers it" are of the verb.
ANSWER_AS_NOUN = re.compile(
    r"^(?!test_)[\w.]*((?<!un)[Aa]nswers?(?![a-z])|(?<!UN)ANSWERS?(?![A-Z]))\w*$"
    r"|(?i:\b(?:the|an|its|their|whose|first|no) answers?\b)(?! (?:it|them|the)\b)"
)
#: Packages whose strings a user reads: help, errors, log lines, console pages, descriptions of metrics and configs.
PRODUCT = (
    "protocol", "metadata", "storage", "replication", "coordinator", "server", "archive", "cli", "columns", "console",
    "admin", "records", "spark", "testing", "tiers",
)  # fmt: skip
#: Home-made or poetic words in messages, and what to write.
MESSAGES = {
    r"(?<!there )(?<!There )\bis no (?!longer\b|more\b)": "is not a",
    r"\bgo(?:es)? on\b": "continues",
    r"\bheard of\b": "sent no heartbeat, sent no response",
    r"\bstays? as\b": "is unchanged",
    r"\ball the same\b": "anyway",
    r"\b(?:speak|says?|said|told|tells?|hear)\b": "the verb of the actor: uses, has, reports, sends",
    r"\bnot built\b": "not supported",
    r"\bof (?:your|its) own\b": "your own, a separate, a unique",
    r"\bbeg[iu]n (?:again|anew)\b": "created anew",
    r"\b(?:written|built) again\b": "rewritten, rebuilt",
    r"\bcomes? to be\b": "is created",
    r"\b(?:so|as) many\b": "this many",
    r"\bfate\b": "may or may not be written",
    r"\bmend(?:s|ed)?\b": "repair, restore",
    r"\bleft aside\b": "skipped",
    r"\bfor ever\b": "forever",
    r"\bfor want of\b": "because no ... was left",
    r"\baccess rules?\b": "ACL",
    r"\bdead letters\b(?!\Z)": "dead-letter records",
    r"\b(?:records|bytes|values?|lines?) a (?:second|minute|line)\b": "per second, per line",
    r"^(?-i:What|Whose|Whom|Whoever|Nobody|Somebody|Those|Their) ": "a noun or a verb first",
}
#: File and sentence: quotations of a person.
QUOTATIONS = {("docs/troubleshooting.md", 'The client says "no brokers available"')}
#: Files whose docstrings list the names of data.
NAMES_OF_DATA = ("compat_tests/share_faults/member.py",)
#: Files in which a letter is a letter of the alphabet.
LETTERS_OF_THE_ALPHABET = (
    "client/properties_file.py",
    "tests/metadata/test_configs_against_java.py",
    "tests/test_plain_words.py",
)


def first_word(text: str) -> str:
    found = re.match(r"\W*(\w+)", text)
    return found[1].lower() if found else ""


@kept_facts
def definitions_of(file: str) -> list[tuple[str, str]]:
    """Returns name and docstring of the module, and of each class and function in it."""
    return [
        (getattr(node, "name", ""), ast.get_docstring(node, clean=False) or "")
        for node in statements_of(file)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def definitions() -> list[tuple[str, str, str]]:
    """Returns file, name and docstring of each module, class and function."""
    return [(file, name, docstring) for file in files("*.py") for name, docstring in definitions_of(file)]


def test_docstrings_begin_with_a_noun_or_a_verb() -> None:
    assert [(file, text[:60]) for file, _, text in definitions() if first_word(text) in VAGUE] == []


def test_headings_begin_with_a_noun_or_a_verb() -> None:
    headings = [(page, line) for page in files("*.md") for line in re.findall(r"^#+ .*", text_of(page), re.MULTILINE)]
    assert len(headings) > 100
    assert [heading for heading in headings if first_word(heading[1]) in VAGUE] == []


def test_names_of_tests_say_condition_and_outcome_of_a_named_actor() -> None:
    names = [(file, name) for file, name, _ in definitions() if name.startswith("test_")]
    vague = [(file, name) for file, name in names if name.split("_")[1] in VAGUE]
    assert len(names) > 1_000 and vague == []
    assert [(file, name) for file, name in names if UNCLEAR_IN_TESTS & set(name.split("_"))] == []


@kept_facts
def terms_of(file: str) -> list[tuple[int, str]]:
    """Returns line and text of each home-made name in a module."""
    if not re.search(rf"\b(?:{'|'.join(TERMS)})\b", text_of(file)):
        return []
    return [(line, text) for kind, line, text in tokens_of(file) if kind == tokenize.NAME and text in TERMS]


def test_code_uses_the_terms_of_the_field() -> None:
    found = []
    for file in files("*.py"):
        if file not in LETTERS_OF_THE_ALPHABET:
            found += [f"{file}:{line}: {text}, say {TERMS[text]}" for line, text in terms_of(file)]
    assert found == []


@kept_facts
def phrases_of(file: str) -> list[str]:
    """Returns the home-made phrases in a file."""
    return re.findall("|".join(f"(?:{phrase})" for phrase in PHRASES), text_of(file))


def test_prose_uses_the_terms_of_the_field() -> None:
    found = [
        f"{file}: {text!r}, say {next(term for phrase, term in PHRASES.items() if re.search(phrase, text))}"
        for file in files("*.py", "*.md", "*.toml")
        if file not in ("tests/test_plain_words.py", "CHANGELOG.md")
        for text in phrases_of(file)
    ]
    assert found == []


def test_cli_and_console_have_no_answer_beside_response() -> None:
    assert list(uses_of_answer(ANSWER, *(f"{package}/*.py" for package in RESPONSES))) == []


def test_response_is_the_only_noun_for_what_comes_back() -> None:
    packages = [f"{package}/*.py" for package in PACKAGES if package not in RESPONSES]
    assert list(uses_of_answer(ANSWER_AS_NOUN, *packages, "tests/*.py", "compat_tests/*.py")) == []


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("answer", True),
        ("self._answers", True),
        ("LeaderAnswer", True),
        ("MAX_ANSWER_BYTES", True),
        ("The answer comes later.", True),
        ("without an answer", True),
        ("answered", False),
        ("unanswered_calls", False),
        ("MAX_UNANSWERED_CALLS", False),
        ("The leader answers it at once.", False),
    ],
)
def test_noun_is_found_and_the_verb_is_not(text: str, is_found: bool) -> None:
    assert (ANSWER_AS_NOUN.search(text) is not None) == is_found


def test_tokens_are_those_of_the_tokenizer() -> None:
    source = 'a1 = b"#" + r"\\" # c\nd = """#\n\\""""; 0x1f; e = \'"\'  # f "g"\nif é: pass\n'
    kinds = (tokenize.NAME, tokenize.STRING, tokenize.COMMENT)
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    expected = [(one.type, one.start[0], one.string) for one in tokens if one.type in kinds]
    assert len(expected) == 12
    assert list(tokens_in(source)) == expected


def uses_of_answer(pattern: re.Pattern[str], *patterns: str) -> Iterator[str]:
    """Yields the names, comments and texts in which a pattern is found, as `file:line: token`."""
    for file in files(*patterns):
        if file != "tests/test_plain_words.py":
            yield from (f"{file}:{line}: {text}" for line, text in answers_of(file) if pattern.search(text))


@kept_facts
def answers_of(file: str) -> list[tuple[int, str]]:
    """Returns line and text of the names, comments and texts that have the word in any form."""
    tokens = tokens_of(file) if ANSWER.search(text_of(file)) else ()
    return [(line, text) for _, line, text in tokens if ANSWER.search(text)]


@kept_facts
def unclear_prose(file: str) -> list[str]:
    if not UNCLEAR_IN_PROSE.search(text_of(file)):
        return []
    return [
        f"{file}:{line}: {match[0]}"
        for line, text in comments_and_docstrings(file)
        for match in UNCLEAR_IN_PROSE.finditer(text)
    ]


def test_docstrings_and_comments_name_the_actor() -> None:
    sources = files(*(f"{package}/*.py" for package in PACKAGES))
    assert len(sources) > 500
    assert [text for file in sources if file not in NAMES_OF_DATA for text in unclear_prose(file)] == []


def test_messages_use_plain_words() -> None:
    unclear = re.compile("|".join(f"(?:{phrase})" for phrase in (*MESSAGES, UNCLEAR_IN_PROSE.pattern)), re.IGNORECASE)
    texts = list(messages())
    assert len(texts) > 3_000
    assert [
        f"{file}:{line}: {unclear.findall(text)} in {text!r}" for file, line, text in texts if unclear.search(text)
    ] == []


def test_help_texts_begin_with_a_noun_or_a_verb() -> None:
    texts = list(help_texts())
    assert len(texts) > 200
    assert [text for text in texts if first_word(text[2]) in {*VAGUE, "between", "as"}] == []


def test_comments_begin_with_a_noun_or_a_verb() -> None:
    vague = "|".join(word.capitalize() for word in sorted(VAGUE))
    begins_vaguely = re.compile(rf"^[ \t]*#:? (?:{vague})\b.*", re.MULTILINE)
    found = []
    for file in files(*(f"{package}/*.py" for package in PACKAGES)):
        for match in begins_vaguely.finditer(text_of(file)):
            before = text_of(file)[: match.start()].rpartition("\n")[0].rpartition("\n")[2]
            if not before.lstrip().startswith("#"):  # else a sentence in the middle of a comment
                found.append(f"{file}: {match[0].strip()}")
    assert found == []


def test_pages_name_the_actor() -> None:
    found = [
        f"{page}: {line}"
        for page in files("*.md")
        if page.split("/")[0] in ("docs", "README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
        for line in re.sub(r"^```.*?^```", "", text_of(page), flags=re.MULTILINE | re.DOTALL).splitlines()
        if UNCLEAR_IN_PROSE.search(line) and not any(page == file and text in line for file, text in QUOTATIONS)
    ]
    assert found == []


def messages() -> Iterator[tuple[str, int, str]]:
    """Yields file, line and text of each string of at least three words that the product writes."""
    for file in files(*(f"{package}/*.py" for package in PRODUCT)):
        yield from ((file, line, text) for line, text in messages_of(file))


@kept_facts
def messages_of(file: str) -> list[tuple[int, str]]:
    found = strings(nodes_of(file))
    return [(line, text) for line, text in found if len(re.findall(r"\b[A-Za-z]{2,}\b", text)) >= 3]


def strings(found: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yields line and text of each string literal but docstrings."""
    parts: set[ast.AST] = set()
    for node in found:
        if isinstance(node, ast.Expr):
            parts.add(node.value)
        elif isinstance(node, ast.JoinedStr):
            parts.update(node.values)
        if node not in parts and literal(node):
            yield node.lineno, literal(node)  # type: ignore[attr-defined]  # a literal has a line


def literal(node: ast.AST) -> str:
    """Returns the text of a string literal, with "…" for each value of an f-string; "" for another node."""
    if isinstance(node, ast.JoinedStr):
        return "".join(literal(part) or "…" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def help_texts() -> Iterator[tuple[str, int, str]]:
    """Yields file, line and text of each description of a command or an option."""
    for file in files("cli/*.py", "console/*.py", "testing/*.py"):
        yield from ((file, line, text) for line, text in help_texts_of(file))


@kept_facts
def help_texts_of(file: str) -> list[tuple[int, str]]:
    return [
        (node.value.lineno, literal(node.value))
        for node in (nodes_of(file) if "help=" in text_of(file) else ())
        if isinstance(node, ast.keyword) and node.arg in ("help", "description") and literal(node.value)
    ]
