"""`python -m podium`: the same as `podium`."""

import sys

from podium.cli import main

sys.exit(main())
