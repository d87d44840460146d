// A move in progress: what it changed, so that it can be taken back exactly. Journal of solver/local_search/state.py.
#pragma once

#include <algorithm>

#include "loads.hpp"

namespace emplace {

struct Journal {
    Ints clock;
    Ints device;
    Ints device_stamp;
    View<double, 2> load;
    Floats cost;
    Ints pool;
    Ints pool_stamp;
    Floats ddr;
    Floats ddr_cost;
    Ints table;
    Ints option;
    View<Int, 2> target;

    template <typename Fields>
    static Journal from(const Fields& given) {
        return {given["clock"],      given["device"], given["device_stamp"], given["load"],  given["cost"],   given["pool"],
                given["pool_stamp"], given["ddr"],    given["ddr_cost"],     given["table"], given["option"], given["target"]};
    }

    FixedInts devices_touched() const { return {device.begin(), {clock[1]}}; }
    FixedInts pools_touched() const { return {pool.begin(), {clock[2]}}; }
};

// A new move: nothing touched, no table proposed.
inline void begin(const Journal& journal) {
    journal.clock[0] += 1;
    journal.clock[1] = 0;
    journal.clock[2] = 0;
    std::fill(journal.table.begin(), journal.table.end(), -1);
}

inline void remember_device(const SearchState& state, const Journal& journal, Int device) {
    if (journal.device_stamp[device] == journal.clock[0]) {
        return;
    }
    journal.device_stamp[device] = journal.clock[0];
    journal.device[journal.clock[1]] = device;
    journal.clock[1] += 1;
    journal.cost[device] = state.cost[device];
    const Floats load = state.load[device], was = journal.load[device];
    for (Int column = 0; column < load.size(); ++column) {
        was[column] = load[column];
    }
}

inline void remember_pool(const SearchState& state, const Journal& journal, Int pool) {
    if (journal.pool_stamp[pool] == journal.clock[0]) {
        return;
    }
    journal.pool_stamp[pool] = journal.clock[0];
    journal.pool[journal.clock[2]] = pool;
    journal.clock[2] += 1;
    journal.ddr[pool] = state.ddr[pool];
    journal.ddr_cost[pool] = state.ddr_cost[pool];
}

// Put a unit down (+1) or take it up (-1): loads and overload follow, the journal remembers them as they were.
inline void move_unit(const FlatProblem& flat, const LoadLimits& limits, const SearchState& state, const Journal& journal, Int unit,
                      Int target, double sign) {
    for (const Int device : flat.covered(target)) {
        const Int kind = flat.kind[device], pool = flat.pool[device];
        remember_device(state, journal, device);
        const Floats load = state.load[device], limit = limits.load[device];
        const FixedFloats added = flat.unit_load[unit][kind];
        double cost = 0.0;
        for (Int column = 0; column < load.size(); ++column) {
            load[column] += sign * added[column];
            const double over = load[column] - limit[column];
            if (over > 0.0) {
                cost += priced(over, limits.weight[column], limits.square_weight[column]);
            }
        }
        state.cost[device] = cost;
        const double ddr = flat.unit_ddr[unit][kind];
        if (ddr != 0.0) {
            remember_pool(state, journal, pool);
            state.ddr[pool] += sign * ddr;
            state.ddr_cost[pool] = pool_cost(limits, state, pool);
        }
    }
}

// By how much the move has changed the overload so far.
inline double change_of(const SearchState& state, const Journal& journal) {
    double change = 0.0;
    for (const Int device : journal.devices_touched()) {
        change += state.cost[device] - journal.cost[device];
    }
    for (const Int pool : journal.pools_touched()) {
        change += state.ddr_cost[pool] - journal.ddr_cost[pool];
    }
    return change;
}

// Loads and overload as they were before the move.
inline void take_back(const SearchState& state, const Journal& journal) {
    for (const Int device : journal.devices_touched()) {
        state.cost[device] = journal.cost[device];
        const Floats load = state.load[device], was = journal.load[device];
        for (Int column = 0; column < load.size(); ++column) {
            load[column] = was[column];
        }
    }
    for (const Int pool : journal.pools_touched()) {
        state.ddr[pool] = journal.ddr[pool];
        state.ddr_cost[pool] = journal.ddr_cost[pool];
    }
}

// Write the proposed options, targets and chains; the loads are there already.
inline void commit(const FlatProblem& flat, const SearchState& state, const Journal& journal) {
    for (Int index = 0; index < 2; ++index) {
        const Int table = journal.table[index];
        if (table < 0) {
            continue;
        }
        const Int first = flat.slot_first[table], chosen = journal.option[index];
        for (Int slot = first; slot < first + flat.units(state.option[table]); ++slot) {
            if (state.is_device(state.target[slot])) {
                unchain(state, slot, state.target[slot]);
            }
        }
        state.option[table] = chosen;
        for (Int offset = 0; offset < flat.units(chosen); ++offset) {
            const Int target = journal.target[index][offset];
            state.target[first + offset] = target;
            if (state.is_device(target)) {
                chain(state, first + offset, target);
            }
        }
    }
}

}  // namespace emplace
