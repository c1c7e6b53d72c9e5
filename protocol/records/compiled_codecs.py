"""Compiled decoders of the codecs: the kernel (folder kernel/), and the libraries that it uses.

This module is imported for the first compressed batch. Until then, and without the packages, the kernel leaves zstd and
gzip to the libraries of `codecs.py`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

#: Version 1.5.7, which rejects all that consumers with other versions may reject; 1.5.4 accepts damaged frames.
_STRICT_ZSTD = 10507
#: Versions of the package `isal` with ISA-L 2.31 or 2.32.
_FIRST_SUPPORTED_ISAL, _FIRST_UNSUPPORTED_ISAL = (1, 7), (2, 0)


def _optional(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        return None


def _offer_zstd() -> None:
    """Gives the kernel the functions of libzstd that the package `zstandard` has, which is newer than many a system's."""
    set_functions = getattr(_kernel, "set_zstd_functions", None)
    found = _optional("zstandard._cffi")
    if set_functions is None or found is None:
        return
    names = ("createDCtx", "decompressDCtx", "findFrameCompressedSize", "isError", "getErrorCode")
    try:
        if found.lib.ZSTD_versionNumber() < _STRICT_ZSTD:
            return
        functions = [found.ffi.addressof(found.lib, f"ZSTD_{name}") for name in names]
    except AttributeError:  # another version of the package
        return
    set_functions(*(int(found.ffi.cast("uintptr_t", function)) for function in functions))


def _offer_isal() -> None:
    """Gives the kernel the functions of ISA-L in the package `isal`, if the version is supported."""
    load = getattr(_kernel, "load_isal", None)
    path = getattr(isal_zlib, "__file__", None)
    if load is not None and path is not None and _is_supported_isal(import_module("isal").__version__):
        load(path)


def _is_supported_isal(version: str) -> bool:
    """Returns whether kernel/gzip.c supports a version of the package. The kernel checks the layout as well."""
    try:
        major, minor = (int(part) for part in version.split(".")[:2])
    except ValueError:
        return False
    return _FIRST_SUPPORTED_ISAL <= (major, minor) < _FIRST_UNSUPPORTED_ISAL


#: Installed with the extra `fast`.
isal_zlib = _optional("isal.isal_zlib")
#: Decompressors of the kernel, if it was compiled: three times as fast for small batches, since they allocate nothing. They
#: reject what decoders read differently, too: matches at offset 0.
_kernel = _optional("odradek_kernel")
kernel_lz4, kernel_snappy = getattr(_kernel, "decompress_lz4", None), getattr(_kernel, "decompress_snappy", None)

_offer_zstd()
_offer_isal()
