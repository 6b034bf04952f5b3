"""``python -m burnx.cli`` is the ``burnx`` command."""

import sys

from burnx.cli.app import main

sys.exit(main())
