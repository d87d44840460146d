// Arithmetic of loads: what is on devices and in pools, and what of it exceeds the limits.
#pragma once

#include <algorithm>
#include <limits>

#include "problem.hpp"
#include "state.hpp"

namespace emplace {

// Devices drawn to find an overloaded one.
constexpr int DEVICES_DRAWN = 3;

// What an excess over a limit costs.
inline double priced(double over, double weight, double square_weight) { return over * (weight + square_weight * over); }

// How much less that is for each unit that the limit is higher.
inline double saving(const LoadLimits& limits, Int column, double over) {
    return over > 0.0 ? limits.weight[column] + 2.0 * limits.square_weight[column] * over : 0.0;
}

// What the excess of a device's loads over their limits costs.
inline double device_cost(const LoadLimits& limits, const SearchState& state, Int device) {
    const Floats load = state.load[device], limit = limits.load[device];
    double cost = 0.0;
    for (Int column = 0; column < load.size(); ++column) {
        const double over = load[column] - limit[column];
        if (over > 0.0) {
            cost += priced(over, limits.weight[column], limits.square_weight[column]);
        }
    }
    return cost;
}

// The weighted excess of a pool's system memory over its limit.
inline double pool_cost(const LoadLimits& limits, const SearchState& state, Int pool) {
    const double over = state.ddr[pool] - limits.ddr[pool];
    return over > 0.0 ? over * limits.ddr_weight[pool] : 0.0;
}

// What `unit` would add to the overload on `target`.
inline double cost_with(const FlatProblem& flat, const LoadLimits& limits, const SearchState& state, Int unit, Int target) {
    double cost = 0.0;
    for (const Int device : flat.covered(target)) {
        const Int kind = flat.kind[device], pool = flat.pool[device];
        const Floats load = state.load[device], limit = limits.load[device];
        const FixedFloats added = flat.unit_load[unit][kind];
        cost -= state.cost[device];
        for (Int column = 0; column < load.size(); ++column) {
            const double over = load[column] + added[column] - limit[column];
            if (over > 0.0) {
                cost += priced(over, limits.weight[column], limits.square_weight[column]);
            }
        }
        const double ddr = flat.unit_ddr[unit][kind];
        if (ddr > 0.0) {
            const double over = state.ddr[pool] + ddr - limits.ddr[pool];
            if (over > 0.0) {
                cost += std::min(over, ddr) * limits.ddr_weight[pool];
            }
        }
    }
    return cost;
}

// What the excess of all devices and pools costs.
inline double overload_of(const SearchState& state) {
    double total = 0.0;
    for (const double cost : state.cost) {
        total += cost;
    }
    for (const double cost : state.ddr_cost) {
        total += cost;
    }
    return total;
}

// The overload under changed limits.
inline double reprice(const LoadLimits& limits, const SearchState& state) {
    for (Int device = 0; device < state.devices(); ++device) {
        state.cost[device] = device_cost(limits, state, device);
    }
    for (Int pool = 0; pool < state.pools(); ++pool) {
        state.ddr_cost[pool] = pool_cost(limits, state, pool);
    }
    return overload_of(state);
}

// Add to the loads alone.
inline void add(const FlatProblem& flat, const SearchState& state, Int unit, Int target) {
    for (const Int device : flat.covered(target)) {
        const Int kind = flat.kind[device];
        const Floats load = state.load[device];
        const FixedFloats added = flat.unit_load[unit][kind];
        for (Int column = 0; column < load.size(); ++column) {
            load[column] += added[column];
        }
        state.ddr[flat.pool[device]] += flat.unit_ddr[unit][kind];
    }
}

// Put a slot first on the list of a device's slots.
inline void chain(const SearchState& state, Int slot, Int device) {
    const Int first = state.head[device];
    state.next[slot] = first;
    state.previous[slot] = -1;
    if (first >= 0) {
        state.previous[first] = slot;
    }
    state.head[device] = slot;
    state.slots[device] += 1;
}

// Take a slot off the list of a device's slots.
inline void unchain(const SearchState& state, Int slot, Int device) {
    const Int before = state.previous[slot], after = state.next[slot];
    if (before >= 0) {
        state.next[before] = after;
    } else {
        state.head[device] = after;
    }
    if (after >= 0) {
        state.previous[after] = before;
    }
    state.slots[device] -= 1;
}

// Add up all loads and chains afresh from options and targets, and return the overload: infinity where a unit has no place. Option -1 is no
// load; `base` [L] is on every device.
inline double recount(const FlatProblem& flat, const LoadLimits& limits, const SearchState& state, const FixedFloats& base) {
    for (Int device = 0; device < state.devices(); ++device) {
        std::copy(base.begin(), base.end(), state.load[device].begin());
    }
    std::fill(state.ddr.begin(), state.ddr.end(), 0.0);
    std::fill(state.head.begin(), state.head.end(), -1);
    std::fill(state.slots.begin(), state.slots.end(), 0);
    bool is_placed = true;
    for (Int table = 0; table < state.option.size(); ++table) {
        const Int first = flat.slot_first[table], option = state.option[table];
        if (option < 0) {
            continue;
        }
        for (Int offset = 0; offset < flat.units(option); ++offset) {
            const Int target = state.target[first + offset];
            add(flat, state, flat.option_first_unit[option] + offset, target);
            if (state.is_device(target)) {
                chain(state, first + offset, target);
            }
            is_placed = is_placed && target >= 0;
        }
    }
    const double overload = reprice(limits, state);
    return is_placed ? overload : std::numeric_limits<double>::infinity();
}

// Note which devices are overloaded now.
inline void look_for_overload(const SearchState& state) {
    Int count = 0;
    for (Int device = 0; device < state.devices(); ++device) {
        if (state.cost[device] > 0.0) {
            count += 1;
            state.overloaded[count] = device;
        }
    }
    state.overloaded[0] = count;
}

// Every other time one that was overloaded at the last look, if any was; else, of a few devices drawn at random, the most overloaded one.
inline Int loaded_device(const SearchState& state) {
    const Int count = state.overloaded[0];
    if (count > 0 && below(state, 2) != 0) {
        return state.overloaded[1 + below(state, count)];
    }
    Int best = below(state, state.devices());
    for (int drawn = 1; drawn < DEVICES_DRAWN; ++drawn) {
        const Int other = below(state, state.devices());
        if (state.cost[other] > state.cost[best]) {
            best = other;
        }
    }
    return best;
}

}  // namespace emplace
