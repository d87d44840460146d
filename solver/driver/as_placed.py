"""Tables that are placed already, as a question prices them: an earlier plan is an answer too, where all of it is still allowed."""

from __future__ import annotations

from collections.abc import Iterator

from emplace.placement.derived_loads import constant_us
from emplace.placement.derived_plan import derive_plan, imported_record
from emplace.placement.plan import Question, TablePlacement
from emplace.placement.topology import Topology
from emplace.solver.driver.variants import variants
from emplace.solver.model.extract import Placement
from emplace.solver.model.fixed import fixed_tables, misfit
from emplace.solver.model.warm_start import Placed


def as_placed(question: Question, tables: tuple[TablePlacement, ...], topology: Topology) -> Placement:
    """What the question makes of the tables, wires and all; they must be sound on `topology`."""
    plan = derive_plan(question, tables, topology, imported_record(question, ""))
    assert plan.step_time_us is not None
    assert plan.imbalance is not None
    return Placement(plan.tables, plan.ranks, plan.nodes, plan.step_time_us, plan.imbalance, constant_us(question, topology))


def earlier_placement(question: Question, placed: Placed) -> Placement | None:
    """All of the question's tables where they were; None where one is new, or the question doesn't allow that any more.

    Raises InvalidDocument as `variants` does.
    """
    return min(_allowed(question, placed), key=lambda found: found.cost_us, default=None)


def _allowed(question: Question, placed: Placed) -> Iterator[Placement]:
    """The placement in each variant that has the tables so."""
    wanted = question.model.tables
    if any(table.name not in placed for table in wanted):
        return
    for topology in (variant.topology for variant in variants(question)):
        is_sound = all(misfit(question, table, placed[table.name], topology) is None for table in wanted)
        if is_sound and not fixed_tables(question, topology, placed).conflicts:
            found = as_placed(question, tuple(placed[table.name] for table in wanted), topology)
            if found.fits:
                yield found
