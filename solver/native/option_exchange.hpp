// What two devices hold is split between them anew, as it is or with another option for one of their tables.
#pragma once

#include <utility>

#include "moves.hpp"
#include "split.hpp"

namespace emplace {

// Whether a slot's table may use `there` and is not there yet.
inline bool may_go(const FlatProblem& flat, const SearchState& state, Int slot, Int there) {
    const Int table = flat.slot_table[slot], first = flat.slot_first[table];
    const Ints targets = state.target.part(first, first + flat.units(state.option[table]));
    return flat.may_use(table, there) && std::find(targets.begin(), targets.end(), there) == targets.end();
}

// Append to the slots of `split` those on `here` that may go `there`; once full, each later one replaces an earlier one at random.
inline void gather(const FlatProblem& flat, const SearchState& state, Split& split, Int here, Int there) {
    Int seen = split.count;
    for (Int slot = state.head[here]; slot >= 0; slot = state.next[slot]) {
        if (may_go(flat, state, slot, there)) {
            const Int place = seen < MOST_SLOTS ? seen : below(state, seen + 1);
            if (place < MOST_SLOTS) {
                note(flat, state, split, slot, place);
            }
            seen += 1;
        }
    }
    split.count = std::min(seen, MOST_SLOTS);
}

// Put every slot on the side that the best split gives it.
inline void apply(const FlatProblem& flat, const LoadLimits& limits, const SearchState& state, const Split& split, const Pair& pair) {
    const Int loads = state.columns();
    for (Int index = 0; index < split.count; ++index) {
        const Int slot = split.slot[index], here = state.target[slot], there = pair[(split.best >> index) & 1];
        if (here == there) {
            continue;
        }
        const Row& load = split.load[index][0];
        for (Int column = 0; column < loads; ++column) {
            state.load[here][column] -= load[column];
            state.load[there][column] += load[column];
        }
        state.ddr[flat.pool[here]] -= load[loads];
        state.ddr[flat.pool[there]] += load[loads];
        unchain(state, slot, here);
        chain(state, slot, there);
        state.target[slot] = there;
    }
    for (const Int device : pair) {
        const Int pool = flat.pool[device];
        state.cost[device] = device_cost(limits, state, device);
        state.ddr_cost[pool] = pool_cost(limits, state, pool);
    }
}

// The best split of what two devices hold, if there is one with an overload below `least`; whether there was, and the sides tried.
inline std::pair<bool, Int> exchange(const FlatProblem& flat, const LoadLimits& limits, const SearchState& state, Split& split,
                                     const Pair& pair, double least) {
    split.count = 0;
    gather(flat, state, split, pair[0], pair[1]);
    gather(flat, state, split, pair[1], pair[0]);
    const auto [found, ways] = best_split(flat, limits, state, split, pair, least);
    if (found) {
        apply(flat, limits, state, split, pair);
    }
    return {found, ways};
}

// Where a unit of a proposed table goes: to one of the pair, where the table is, or to the cheapest of a few targets; -1 if none is free.
inline Int near_target(const FlatProblem& flat, const LoadLimits& limits, const SearchState& state, const Journal& journal, const Pair& pair,
                       Int unit, Int group, Int proposed) {
    const Int table = journal.table[0];
    for (const Int device : pair) {
        if (flat.kind[device] == group && flat.may_use(table, device) && !takes(journal, 0, proposed, device)) {
            return device;
        }
    }
    const Int first = flat.slot_first[table], old = state.option[table];
    for (Int offset = 0; flat.option_group[old] == group && offset < flat.units(old); ++offset) {
        if (!takes(journal, 0, proposed, state.target[first + offset])) {
            return state.target[first + offset];
        }
    }
    return cheapest_target(flat, limits, state, journal, 0, unit, group, proposed);
}

// Propose another option for a table of the pair; false where the draw gave none.
inline bool propose_option(const FlatProblem& flat, const LoadLimits& limits, const SearchState& state, const Journal& journal,
                           const Pair& pair) {
    begin(journal);
    const Int slot = slot_on(state, pair[below(state, 2)]);
    if (slot < 0) {
        return false;
    }
    const Int table = flat.slot_table[slot], option = draw_option(flat, state, table);
    if (option == state.option[table]) {
        return false;
    }
    take_up(flat, limits, state, journal, table);
    journal.table[0] = table;
    journal.option[0] = option;
    const Int unit = flat.option_first_unit[option];
    for (Int offset = 0; offset < flat.units(option); ++offset) {
        const Int target = near_target(flat, limits, state, journal, pair, unit + offset, flat.option_group[option], offset);
        if (target < 0) {
            return false;
        }
        journal.target[0][offset] = target;
        move_unit(flat, limits, state, journal, unit + offset, target, 1.0);
    }
    return true;
}

// Split the pair anew with another option for one of its tables, if that leaves less overload and price together; whether it did, and the
// sides tried.
inline std::pair<bool, Int> exchange_option(const FlatProblem& flat, const LoadLimits& limits, const SearchState& state,
                                            const Journal& journal, Split& split, const Pair& pair) {
    if (!propose_option(flat, limits, state, journal, pair)) {
        take_back(state, journal);
        return {false, 0};
    }
    const Int table = journal.table[0];
    const double dearer = flat.option_price[journal.option[0]] - flat.option_price[state.option[table]];
    const double least = (cost_of(flat, state, pair) - change_of(state, journal) - dearer) * (1.0 - 1e-9);
    if (least <= 0.0) {
        take_back(state, journal);
        return {false, 0};
    }
    keep(flat, state, journal, 1, table);
    journal.table[1] = -1;
    commit(flat, state, journal);
    const auto [found, ways] = exchange(flat, limits, state, split, pair, least);
    if (!found) {
        journal.table[0] = -1;
        journal.table[1] = table;
        commit(flat, state, journal);
        take_back(state, journal);
    }
    return {found, ways};
}

}  // namespace emplace
