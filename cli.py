#!/usr/bin/env python3
"""The command line of Transformer Suite: ``cli.py COMMAND --help`` explains each command.

Results go to stdout, everything else to stderr. Exit codes: 0 success, 1 failure (one line on
stderr gives the reason), 2 wrong usage, 130 interrupted. If the reader of stdout closes it early
(``| head``), the exit code is 0.

The commands are in :mod:`tasks.commands`, one file each. They are imported when they are called.
"""

from tasks.commands.main import main

if __name__ == "__main__":
    main()
