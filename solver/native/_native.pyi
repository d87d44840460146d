from emplace.solver.heuristics.greedy import Room, Strategy
from emplace.solver.local_search.state import Journal, LoadLimits, Schedule, SearchState
from emplace.solver.model.flat import FlatProblem
from emplace.solver.model.problem import Floats, Ints
from emplace.solver.patterns.knapsack import Bounds, Path, PatternsMet, PricedItems

def anneal(
    flat: FlatProblem, limits: LoadLimits, state: SearchState, journal: Journal, overload: float, schedule: Schedule, /
) -> tuple[float, float, int]: ...
def common_divisor(values: Floats, mean: float, least: float, finest: float, /) -> float: ...
def enumerate_patterns(
    first: Ints, use: Floats, order: Ints, used: Floats, at: Ints, chosen: Ints, held: Ints, limit: float, most_steps: int, /
) -> int: ...
def fill_grid(first: Ints, cell: Ints, value: Floats, order: Ints, worth: Floats, /) -> None: ...
def greedy(flat: FlatProblem, limits: LoadLimits, state: SearchState, order: Ints, options: Ints, taken: Ints, /) -> None: ...
def place_all(flat: FlatProblem, strategy: Strategy, room: Room, option: Ints, target: Ints, /) -> bool: ...
def recount(flat: FlatProblem, limits: LoadLimits, state: SearchState, base: Floats, /) -> float: ...
def resplit_pairs(
    flat: FlatProblem,
    limits: LoadLimits,
    state: SearchState,
    journal: Journal,
    work: float,
    pair_work: float,
    way_work: float,
    /,
) -> tuple[float, float]: ...
def search_patterns(items: PricedItems, bounds: Bounds, path: Path, threshold: float, most_steps: int, /) -> float: ...
def search_repricing(
    items: PricedItems,
    price: Floats,
    held: Floats,
    met: PatternsMet,
    threshold: float,
    most_steps: int,
    enough_steps: int,
    /,
) -> float: ...
def subgradient(items: PricedItems, prices: Floats, slack: Floats, score: Floats, total: float, rounds: int, /) -> None: ...
