"""`python -m app.cli`: the same as `emplace`."""

from app.cli.main import main

main()
