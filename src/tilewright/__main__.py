"""`python -m tilewright`: the command line where no script was installed."""

from tilewright.cli import main

main()
