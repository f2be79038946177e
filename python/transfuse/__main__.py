import sys

from transfuse.cli import main

sys.exit(main())
