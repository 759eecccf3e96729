"""`python -m serl` is `serl`."""

from serl.cli import main

main()
