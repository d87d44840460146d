"""`python -m emplace.app.cli`: the same as `emplace`."""

from emplace.app.cli.main import main

main()
