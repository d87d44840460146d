// The moves of annealing: each takes units up, draws options and targets for them, and puts them down.
#pragma once

#include <limits>

#include "journal.hpp"

namespace emplace {

// Shares of the moves, in percent and summed up: shift one slot; swap two; place one table anew with another option; place two. The rest
// swaps two tables on single devices and draws their options.
constexpr Int SHIFT = 25, SWAP = 55, ONE = 75, TWO = 90;
// Targets drawn to find a cheap one.
constexpr int TARGETS_DRAWN = 3;

// A random slot on `device`, or -1.
inline Int slot_on(const SearchState& state, Int device) {
    if (state.slots[device] == 0) {
        return -1;
    }
    Int slot = state.head[device];
    for (Int left = below(state, state.slots[device]); left > 0; --left) {
        slot = state.next[slot];
    }
    return slot;
}

inline Int draw_option(const FlatProblem& flat, const SearchState& state, Int table) {
    const FixedInts candidates = flat.candidates(table);
    return candidates[below(state, candidates.size())];
}

// Propose `table` as it is.
inline void keep(const FlatProblem& flat, const SearchState& state, const Journal& journal, Int index, Int table) {
    const Int first = flat.slot_first[table], option = state.option[table];
    journal.table[index] = table;
    journal.option[index] = option;
    for (Int offset = 0; offset < flat.units(option); ++offset) {
        journal.target[index][offset] = state.target[first + offset];
    }
}

// Whether one of the first `units` units of a proposed table takes `target`.
inline bool takes(const Journal& journal, Int index, Int units, Int target) {
    const Ints proposed = journal.target[index].part(0, units);
    return std::find(proposed.begin(), proposed.end(), target) != proposed.end();
}

// Move one unit of a table proposed as it is.
inline void relocate(const FlatProblem& flat, const LoadLimits& limits, const SearchState& state, const Journal& journal, Int index,
                     Int offset, Int target) {
    const Int unit = flat.option_first_unit[journal.option[index]] + offset;
    move_unit(flat, limits, state, journal, unit, journal.target[index][offset], -1.0);
    move_unit(flat, limits, state, journal, unit, target, 1.0);
    journal.target[index][offset] = target;
}

inline void take_up(const FlatProblem& flat, const LoadLimits& limits, const SearchState& state, const Journal& journal, Int table) {
    const Int first = flat.slot_first[table], option = state.option[table];
    for (Int offset = 0; offset < flat.units(option); ++offset) {
        move_unit(flat, limits, state, journal, flat.option_first_unit[option] + offset, state.target[first + offset], -1.0);
    }
}

// The target where `unit` adds the least overload, among a few drawn at random that are free of the first `proposed` units of the table;
// -1 if none was.
inline Int cheapest_target(const FlatProblem& flat, const LoadLimits& limits, const SearchState& state, const Journal& journal, Int index,
                           Int unit, Int group, Int proposed) {
    const FixedInts targets = flat.targets(group);
    if (targets.size() == 1) {
        return proposed == 0 ? targets[0] : -1;
    }
    Int best = -1;
    double least = std::numeric_limits<double>::infinity();
    for (int drawn = 0; drawn < TARGETS_DRAWN; ++drawn) {
        const Int target = targets[below(state, targets.size())];
        if (flat.may_use(journal.table[index], target) && !takes(journal, index, proposed, target)) {
            const double cost = cost_with(flat, limits, state, unit, target);
            if (cost < least) {
                best = target;
                least = cost;
            }
        }
    }
    return best;
}

// Units mostly stay where the table's old option had them, as far as the scope and the kind are the same; others go to the cheapest of a
// few targets.
inline bool put_down(const FlatProblem& flat, const LoadLimits& limits, const SearchState& state, const Journal& journal, Int index,
                     Int table) {
    const Int old = state.option[table], option = draw_option(flat, state, table);
    const Int group = flat.option_group[option], unit = flat.option_first_unit[option];
    journal.table[index] = table;
    journal.option[index] = option;
    const Int kept = option != old && flat.option_group[old] == group ? flat.units(old) : 0;
    for (Int offset = 0; offset < flat.units(option); ++offset) {
        Int target = -1;
        if (offset < kept && below(state, 4) > 0) {
            target = state.target[flat.slot_first[table] + offset];
            if (takes(journal, index, offset, target)) {
                target = -1;
            }
        }
        if (target < 0) {
            target = cheapest_target(flat, limits, state, journal, index, unit + offset, group, offset);
        }
        if (target < 0) {
            return false;
        }
        journal.target[index][offset] = target;
        move_unit(flat, limits, state, journal, unit + offset, target, 1.0);
    }
    return true;
}

// One slot to another target of its kind.
inline bool shift(const FlatProblem& flat, const LoadLimits& limits, const SearchState& state, const Journal& journal, Int slot) {
    const Int table = flat.slot_table[slot], option = state.option[table];
    const FixedInts targets = flat.targets(flat.option_group[option]);
    const Int target = targets[below(state, targets.size())];
    keep(flat, state, journal, 0, table);
    if (!flat.may_use(table, target) || takes(journal, 0, flat.units(option), target)) {
        return false;
    }
    relocate(flat, limits, state, journal, 0, slot - flat.slot_first[table], target);
    return true;
}

// Exchange the devices of two slots of two tables.
inline bool swap(const FlatProblem& flat, const LoadLimits& limits, const SearchState& state, const Journal& journal, Int slot, Int other) {
    const Int table = flat.slot_table[slot], partner = flat.slot_table[other];
    const Int device = state.target[slot], place = state.target[other];
    if (table == partner || device == place || flat.kind[device] != flat.kind[place]) {
        return false;
    }
    if (!flat.may_use(table, place) || !flat.may_use(partner, device)) {
        return false;
    }
    keep(flat, state, journal, 0, table);
    keep(flat, state, journal, 1, partner);
    if (takes(journal, 0, flat.units(state.option[table]), place) || takes(journal, 1, flat.units(state.option[partner]), device)) {
        return false;
    }
    relocate(flat, limits, state, journal, 0, slot - flat.slot_first[table], place);
    relocate(flat, limits, state, journal, 1, other - flat.slot_first[partner], device);
    return true;
}

// Propose that `table`, on a single device, goes to `target` with a single-device option drawn anew.
inline bool draw_for(const FlatProblem& flat, const SearchState& state, const Journal& journal, Int index, Int table, Int target) {
    const Int option = draw_option(flat, state, table);
    if (!state.is_device(target) || flat.units(option) != 1 || flat.option_group[option] != flat.kind[target]) {
        return false;
    }
    journal.table[index] = table;
    journal.option[index] = option;
    journal.target[index][0] = target;
    return flat.may_use(table, target);
}

// Two tables on single devices swap places, each with a single-device option drawn anew.
inline bool trade(const FlatProblem& flat, const LoadLimits& limits, const SearchState& state, const Journal& journal, Int table,
                  Int partner) {
    if (table == partner || flat.units(state.option[table]) != 1 || flat.units(state.option[partner]) != 1) {
        return false;
    }
    const Int here = state.target[flat.slot_first[table]], there = state.target[flat.slot_first[partner]];
    if (!draw_for(flat, state, journal, 0, table, there) || !draw_for(flat, state, journal, 1, partner, here)) {
        return false;
    }
    for (Int index = 0; index < 2; ++index) {
        take_up(flat, limits, state, journal, journal.table[index]);
        move_unit(flat, limits, state, journal, flat.option_first_unit[journal.option[index]], journal.target[index][0], 1.0);
    }
    return true;
}

// Take up one table, or two different ones, and place each with an option drawn anew.
inline bool place_anew(const FlatProblem& flat, const LoadLimits& limits, const SearchState& state, const Journal& journal, Int table,
                       Int other) {
    take_up(flat, limits, state, journal, table);
    if (other != table) {
        take_up(flat, limits, state, journal, other);
    }
    if (!put_down(flat, limits, state, journal, 0, table)) {
        return false;
    }
    return other == table || put_down(flat, limits, state, journal, 1, other);
}

// Draw a move and apply it to the loads; false where the draw gave no legal one.
inline bool propose(const FlatProblem& flat, const LoadLimits& limits, const SearchState& state, const Journal& journal) {
    const Int draw = below(state, 100);
    const Int slot = slot_on(state, loaded_device(state));
    if (SWAP <= draw && draw < TWO) {
        const Int table = slot >= 0 && draw % 4 != 0 ? flat.slot_table[slot] : below(state, state.option.size());
        const Int other = draw >= ONE ? below(state, state.option.size()) : table;
        return place_anew(flat, limits, state, journal, table, other);
    }
    if (slot < 0) {
        return false;
    }
    if (draw < SHIFT) {
        return shift(flat, limits, state, journal, slot);
    }
    const Int other = slot_on(state, below(state, state.devices()));
    if (other < 0) {
        return false;
    }
    if (draw < SWAP) {
        return swap(flat, limits, state, journal, slot, other);
    }
    return trade(flat, limits, state, journal, flat.slot_table[slot], flat.slot_table[other]);
}

}  // namespace emplace
