"""`python -m tokenmill` is the command `tokenmill`."""

import sys

from tokenmill.cli import main

sys.exit(main())
