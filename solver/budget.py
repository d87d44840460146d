"""Every share of the limit, every rate of counted work and every tolerance of the solver, in one place.

Work is counted, not timed (docs/decisions/0004-work-is-counted-not-timed.md): a limit of work is turned into steps at the
rates below, so the same question gets the same plan on any machine. The rates are about what one core of a small server
does (2 cores, 2025). A limit of time (docs/decisions/0019-two-kinds-of-limit.md) is shared out likewise, as time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Budget:
    """What a solve may spend, and when it has done enough."""

    seconds: float
    """Counted, of a reference core."""
    gap: float
    """Enough is a proof that nothing is better by more than this share of the objective."""
    seed: int
    by_clock: bool = False
    """Whether the clock ends the solve, and `seconds` are only what a reference core would do until then."""

    def share(self, share: float) -> Budget:
        """A part of it."""
        return replace(self, seconds=self.seconds * share)

    def of(self, seconds: float) -> Budget:
        """The same for so many seconds."""
        return replace(self, seconds=seconds)

    @property
    def enough(self) -> float:
        """The gap to stop at."""
        return enough_gap(self.gap)


def enough_gap(asked: float) -> float:
    """The gap to stop at: the one that was asked for, and never a finer one than rounding leaves."""
    return max(asked, MET)


# Tolerances: when plan and bound meet

MET = 1e-9
"""Gap that only rounding leaves: bound and plan are sums of the same figures in another order."""
PROVER_MET = 1e-7
"""The finest gap that branch and bound tries to close: its certificates are of linear programs solved to about so much."""
TIE = 1e-9
"""Share by which two objectives may differ and still be equal."""

# Tolerances: arithmetic

SAME_SUM = 1e-12
"""Share by which sums of the same figures in another order differ."""
BOUND_ROUNDING = 1e-9
"""Share of a bound that its sums may be off by: options are ruled out, and values called impossible, only beyond it."""
LP_PRECISION = 1e-6
"""Share of its value to which column generation solves a linear program; and the overload up to which one is feasible."""
CERTIFICATE_MARGIN = 1e-6
"""A certificate by patterns that holds by less is not believed; prices of tables are at most 1."""
INSIDE_CELL = 1e-9
"""Share of a resource that is more than rounding adds to what is used, so that no cell of a knapsack's grid is missed."""
PLACED, COVERED = 1e-9, 1e-6
"""Shares of one table, and of all, up to which nothing of them is missing in a dive; and devices that are none."""

# Tolerances: how finely a bound is found

BOUND_PRECISION = 5e-4
"""Share of the bound to which the largest value that is ruled out is found."""
LEAST_VIOLATION = 1e-4
"""Share of the makespan: cuts violated by less are not worth a row."""

# Shares of a question's limit (driver)

TYPE_SET_SHARES = (0.6, 0.1, 0.1, 0.1, 0.1)
"""The shares of sets of sharding types in the order of their bounds; the first is nearly always the best."""
LEAST_TYPE_COST_SHARE = 0.5
"""The share of the program with options of the least work alone, where ranks share cores; the rest is for all options."""
LIKELY_SHARE, MOST_LIKELY = 0.1, 3
"""The share of each case that is searched with the ways alone that its relaxation takes, and how many; the rest is for all ways."""
UNRESTRICTED_SHARE = 0.5
"""The share of the program that does not know of tables to keep apart: it has the bound. The rest is for keeping them apart."""
LEAST_RETRY_SHARE = 0.1
"""A second search, for a plan whose exact bytes fit, gets what the first has left and at least this share of the limit."""
FREE_REPLAN_SHARE = 0.5
"""The share of the plan that is made as if nothing were anywhere; it has the bound."""
STAY_REPLAN_SHARE = 0.1
"""The share of the plan in which every table stays that may; the rest is for plans in which some are free."""
FLOOR_SHARE, MOST_FLOOR_SECONDS = 0.1, 2.0
"""This share of the limit, at most so many seconds, goes into devices that are done sooner, where the step is as short as its floor allows."""
SIZE_SHARE, MOST_SIZE_SECONDS = 0.1, 2.0
"""Each job size that is tried gets this share of the limit, at most so many seconds: any plan or proof will do."""
FIX_SECONDS = 1.0
"""For each change that may make a question feasible. Small: an explanation tries some twenty."""
ANY_PLAN_GAP = 0.9
"""The gap asked for where any plan will do."""

# Shares of a limit of time alone

READING_SHARE, READING_SECONDS = 0.03, 3e-4
"""What is kept for reading the answer back and auditing it: at least a share of the limit, and so long for each table."""
LEAST_SECONDS = 1e-3
"""What a search counts on where nothing is left, so that it can be shared out."""
TYPE_BOUND_SHARE, BOUND_SHARE = 0.3, 0.3
"""The most of what is left that goes into the bound of a set of sharding types, and of a problem, before the search."""

# Shares of a problem's limit (engine)

SEARCH_SHARES = {(True, True): 0.2, (True, False): 0.35, (False, True): 0.5}
"""The share of the local search, by whether tables are few and whether choices are; all of it where neither is."""
SEARCH_SECONDS = 2.0
"""The local search gets so many seconds, or half the limit: before that plans get better fast."""
HEATS_SHARE = 0.5
"""The share of heats in a race of local searches; the best one gets the rest."""
FIRST_PROOF_SHARE = 0.05
"""The share of the first round of raising the bound, when branch and bound gets far."""
CP_SAT_SHARE = 0.15
"""The share of the second, by CP-SAT, which settles what is easy and what patterns say little about."""
PROOF_ROUNDS = 10
"""The rest is spent in so many equal rounds: after each, both sides learn what the other found."""
DIVE_SHARE, DIVE_SHARE_STAGES = 0.75, 0.88
"""The share of dives in what betters a plan, where they apply, with one stage and with several; the rest is for placing parts of the plan anew."""
BEFORE_DIVES_SECONDS = 1.0
"""With several stages parts of the plan are placed anew for so long first: a dive draws how long stages last, which takes a while."""
NEIGHBOURHOOD_SECONDS = 0.7
"""The most that CP-SAT gets for placing a part of a plan anew."""
SKIPPED_SECONDS = 0.01
"""What a part counts for that is left alone, as building its program would take longer than there is."""
LEAF_SECONDS = 1.0
"""What CP-SAT gets for a node of branch and bound whose options are all chosen."""

# Rates of counted work

SEARCH_WORK_PER_SECOND = 2e7
"""Devices that one lane of the local search touches in a second."""
MOVE_WORK, PAIR_WORK, WAY_WORK = 5.0, 80.0, 0.06
"""Work of the local search in touched devices: of a move beside those that it touches, of beginning to split what two devices hold,
and of trying a side for one of their slots."""
TREE_STEPS_PER_SECOND = 8e7
"""Steps of the knapsack search that branch and bound takes in a second."""
DIVE_STEPS_PER_SECOND = 6e7
"""The same steps in dives, where more of the time goes into linear programs."""
LEAF_STEPS_PER_SECOND = 1e8
"""Steps of branch and bound that a counted second of CP-SAT on a leaf stands for."""
DETERMINISTIC_PER_SECOND = 0.6
"""Units of CP-SAT's deterministic time in a second: one took 1.4 to 2.2 seconds of one core (small models, OR-Tools 9.15)."""
COUNTED_UNIT_S, COUNTED_LITERAL_S, COUNTED_OPTION_S = 0.75, 3e-6, 1e-4
"""What short solves by CP-SAT take: for a unit of deterministic time, and to build and hand over each literal and option."""
LEAF_STEPS_PER_DETERMINISTIC, PATTERN_LEAF_DETERMINISTIC = 4e8, 0.25
"""Steps of branch and bound that a unit of CP-SAT's deterministic time on the patterns of a leaf stands for, and how many of these
units a leaf gets."""
NODE_STEPS, PATTERN_LEAF_STEPS = 200_000, 200_000
"""Steps that a node of branch and bound counts for besides its pricing and programs, and that building the patterns of a leaf does."""
PROGRAM_STEPS = 20_000
"""Steps of pricing that one linear program over patterns counts for: about as long."""
DIVE_PRICING_STEPS, DIVE_STEPS = 20_000, 1_000_000
"""Steps that preparing one pricing of a dive counts for, and that beginning a dive does."""
GRID_CELLS_PER_STEP = 20
"""Cells of a knapsack's grid that are filled in the time of a step of its search."""
