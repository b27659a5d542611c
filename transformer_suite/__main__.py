"""The installed command, ``transformer-suite``; also ``python -m transformer_suite``."""

from tasks.commands.main import main

if __name__ == "__main__":
    main(prog_name="python -m transformer_suite")
