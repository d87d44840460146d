"""What must be fast, in C++: the inner loops of the local search, of the greedy plan and of the search for patterns.

They work in place on the arrays of the records that they are handed, which Python makes and keeps. `_native.pyi` has their types; the
headers beside it are the code, and `module.cpp` binds it.
"""

from emplace.solver.native._native import (
    anneal,
    common_divisor,
    enumerate_patterns,
    fill_grid,
    greedy,
    place_all,
    recount,
    resplit_pairs,
    search_patterns,
    search_repricing,
    subgradient,
)

__all__ = [
    "anneal",
    "common_divisor",
    "enumerate_patterns",
    "fill_grid",
    "greedy",
    "place_all",
    "recount",
    "resplit_pairs",
    "search_patterns",
    "search_repricing",
    "subgradient",
]
