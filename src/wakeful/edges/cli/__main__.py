"""`python -m wakeful.edges.cli`: the console script, for those who know the interpreter and not where scripts are."""

from wakeful.edges.cli.main import main

main()
