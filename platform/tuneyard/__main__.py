"""``python -m tuneyard`` is the command ``tuneyard``."""

import sys

from tuneyard.cli import main

sys.exit(main())
