"""`python -m odradek` is the `odradek` command."""

import sys

from .cli.main import main

sys.exit(main())
