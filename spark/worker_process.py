"""The Python processes that Spark starts for plans and tasks, and uses again: what each use of one costs beside its work.

- Before each plan and each task Spark calls `importlib.invalidate_caches()`. Importers of archives read the directory of
  theirs again then (before Python 3.13), and `pyspark.zip` has one for each of its packages: a tenth of a second.
- After each it runs a full collection of garbage, over all objects of the imported libraries: 30 ms.

Neither shows in a profile of a source, and both are in the CPU of every query.
"""

from __future__ import annotations

import gc
import sys
import zipimport

#: The modules that such processes run, as `python -m pyspark.daemon pyspark.worker`.
_PROGRAMS = ("pyspark.daemon", "pyspark.worker", "pyspark.sql.worker.")

_is_frozen = False


def lower_cost_of_reuse() -> None:
    """Makes the next plan or task of this process cheaper. Does nothing in a process that Spark has not started.

    A plan or a task calls it when its modules are imported. The caches of importers are Python's own: it makes another
    importer where it misses one. Objects of modules stay, so collections need not walk over them.
    """
    global _is_frozen
    if not _is_worker():
        return
    importers = sys.path_importer_cache
    for path in [path for path, importer in importers.items() if isinstance(importer, zipimport.zipimporter)]:
        del importers[path]
    if not _is_frozen:
        _is_frozen = True
        gc.freeze()


def runs(program: str) -> bool:
    """Returns whether this process runs one of Spark's programs, by the name of its module."""
    return _is_worker() and (program in sys.modules or _main() == program)


def _is_worker() -> bool:
    return _main().startswith(_PROGRAMS)


def _main() -> str:
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return "" if spec is None else str(spec.name)
