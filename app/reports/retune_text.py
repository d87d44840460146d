"""A learning rate that was tuned again, as text."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from emplace.app.reports.tables import plain_table, section
from emplace.studies.retuning import RateOutcome, Retuning


def retune_view(found: Retuning) -> RenderableType:
    """The gap before and after, then every rate with the quality that it comes to."""
    asked = found.asked
    table = plain_table("learning rate", "batch", "value", "normalised entropy", "range", "over the best", "over the old batch")
    rows = [
        ("the old one" if asked.old_rate is not None else "tuned at the old batch", asked.old_batch, found.old),
        ("the old one", asked.new_batch, found.unchanged),
        ("linear rule", asked.new_batch, found.linear),
        ("square-root rule", asked.new_batch, found.square_root),
        ("tuned again", asked.new_batch, found.tuned),
    ]
    for name, batch, outcome in rows:
        table.add_row(name, f"{batch:,}", f"{outcome.learning_rate:.4g}", *_cells(outcome, found.old))
    best = f"best reachable {found.best_entropy:.4f} (of the true probabilities); lower is better"
    trials = f"{found.trials} trials, of which {found.trials_kept} were in the store before"
    return Group(
        Text(headline(found), style="bold"),
        Text(""),
        section(f"{found.task}, {asked.optimizer}: {best}", table),
        Text(trials),
        *map(Text, found.notes),
    )


def headline(found: Retuning) -> str:
    """What the change of the batch costs with the old rate and with the tuned one."""
    change = f"batch {found.asked.old_batch:,} to {found.asked.new_batch:,}"
    before, after = (_signed(gap) if gap is not None else "diverged" for gap in (found.gap_before, found.gap_after))
    return f"{change}: normalised entropy {before} at the old learning rate, {after} after tuning"


def _cells(outcome: RateOutcome, old: RateOutcome) -> list[str]:
    if outcome.entropy is None or outcome.entropy_range is None or outcome.over_best is None:
        return ["diverged", "", "", ""]
    low, high = outcome.entropy_range
    gap = "" if old.entropy is None or outcome is old else _signed(outcome.entropy - old.entropy)
    return [f"{outcome.entropy:.4g}", f"{low:.4g}-{high:.4g}", f"{outcome.over_best:.4g}", gap]


def _signed(gap: float) -> str:
    return f"{gap:+.4g}"
