"""Commands that start Java programs with little CPU time.

A test run starts some 270 JVMs, and a short one spends most of its time in loading classes. Two means halve that:

- A program in a single source file is compiled once, into a jar in .tools/, instead of at each start.
- JVMs share an archive of class data for the jars of each Kafka release. `python -m compat_tests.java.archives` makes it;
  a JVM that finds no valid archive starts without it.

Both are named after the sources, the jars and the JVM, so neither is ever out of date. A compiled program is named after
their content alone, so any checkout finds it; a JVM accepts an archive only for jars at the paths of its making. Benchmarks
use neither: they start Apache Kafka as its own scripts do.
"""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

from .fetch import ORACLE, PROGRAMS, classpath, jars, java, write_jar

#: A short start matters more here than peak speed.
JVM_FLAGS = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.awt.headless=true")
_COMPILE_DEADLINE_S = 120
_KEY_CHARACTERS = 16


def java_command(
    program: str | Path,
    *arguments: str,
    jvm: tuple[str, ...] = JVM_FLAGS,
    version: str | None = ORACLE,
    more_jars: tuple[str, ...] = (),
) -> list[str]:
    """Returns the command that runs a class of Kafka's jars, or a source file with a class of its name.

    `version`: the release whose jars are on the class path; None for programs that use the JDK alone. `more_jars`: elements
    that follow them. Raises ToolsMissing.
    """
    path = [*([classpath(version)] if version else []), *more_jars]
    main = program
    if isinstance(program, Path):
        path.append(str(compiled(program, os.pathsep.join(path))))
        main = program.stem
    archive = archive_flags(version) if version else ()
    return [java(), *archive, *jvm, "-cp", os.pathsep.join(path), str(main), *arguments]


def archive_flags(version: str) -> tuple[str, ...]:
    """Returns the flags for the archive of the jars of a release; none if it was not made. A class path may go on after
    these jars. The JVM checks their names, sizes and times, and ignores an archive of others; it logs nothing about it.
    """
    file = archive(version)
    return (f"-XX:SharedArchiveFile={file}", "-Xshare:auto", "-Xlog:cds*=off") if file.exists() else ()


@functools.cache
def archive(version: str) -> Path:
    """Returns the place of the archive of class data for the jars of a release and this JVM."""
    files = [
        f"{path} {file_identity(path)}" for path in (*jars(version), Path(classpath(version).split(os.pathsep)[0]))
    ]
    return PROGRAMS / f"kafka-{version}-{content_key(jvm_identity(), classpath(version), *files)}.jsa"


def compiled(source: Path, path: str) -> Path:
    """Returns the jar of a program in a single source file. Compiles it when there is none of this text, and of class path
    elements with this content.
    """
    key = content_key(jvm_identity(), *_content_of(path), source.read_text(encoding="utf-8"))
    jar = PROGRAMS / f"{source.stem}-{key}.jar"
    if not jar.exists():
        PROGRAMS.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=PROGRAMS) as folder:
            _compile(source, path, Path(folder))
            write_jar(jar, Path(folder))
    return jar


def _content_of(path: str) -> list[str]:
    """Returns what tells the jars of a class path from others, wherever they are."""
    found: list[str] = []
    for element in filter(None, path.split(os.pathsep)):
        folder, name = os.path.split(element)
        files = sorted(Path(folder).glob("*.jar")) if name == "*" else [Path(element)]
        found += [f"{file.name} {_digest(file, file.stat().st_ino, file_identity(file))}" for file in files]
    return found


@functools.cache
def _digest(file: Path, inode: int, identity: str) -> str:
    """Returns the digest of a file that has this inode and identity."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _compile(source: Path, path: str, classes: Path) -> None:
    options = ["-proc:none", "-nowarn", "-encoding", "UTF-8", "-d", str(classes)]
    compiler = str(Path(java()).resolve().with_name("javac"))
    quick = [f"-J{flag}" for flag in JVM_FLAGS]
    command = [compiler, *quick, *options, *(["-cp", path] if path else []), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_DEADLINE_S)
    if done.returncode != 0:
        raise RuntimeError(f"{source} does not compile:\n{done.stdout}{done.stderr}")


@functools.cache
def jvm_identity() -> str:
    """Returns what tells this JVM from others."""
    home = Path(java()).resolve().parents[1]
    return " ".join((str(home), *(file_identity(path) for path in sorted(home.glob("lib/server/*")))))


def file_identity(path: Path) -> str:
    """Returns what tells a file from others of its name."""
    found = path.stat()
    return f"{found.st_size} {found.st_mtime_ns}"


def content_key(*parts: str) -> str:
    """Returns a name for these parts."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:_KEY_CHARACTERS]
