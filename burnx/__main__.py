"""``python -m burnx`` is the ``burnx`` command."""

import sys

from burnx.cli import main

sys.exit(main())
