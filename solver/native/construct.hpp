// Greedy placement: where the search starts.
#pragma once

#include <limits>

#include "loads.hpp"

namespace emplace {

// The largest load with `unit` on `target`, as a share of its limit; shares beyond the limit count tenfold.
inline double largest_share(const FlatProblem& flat, const LoadLimits& limits, const SearchState& state, Int unit, Int target) {
    double worst = 0.0;
    for (const Int device : flat.covered(target)) {
        const Int kind = flat.kind[device], pool = flat.pool[device];
        const Floats load = state.load[device], limit = limits.load[device];
        const FixedFloats added = flat.unit_load[unit][kind];
        for (Int column = 0; column < load.size(); ++column) {
            if (added[column] > 0.0) {
                worst = std::max(worst, (load[column] + added[column]) / std::max(limit[column], 1e-9));
            }
        }
        const double ddr = flat.unit_ddr[unit][kind];
        if (ddr > 0.0) {
            worst = std::max(worst, (state.ddr[pool] + ddr) / std::max(limits.ddr[pool], 1e-9));
        }
    }
    return worst <= 1.0 ? worst : 10.0 * worst;
}

// The target with the most room that a table may use and has not taken yet; -1 where there is none.
inline Int roomiest_target(const FlatProblem& flat, const LoadLimits& limits, const SearchState& state, Int table, Int unit, Int group,
                           const Ints& taken) {
    Int best = -1;
    double least = std::numeric_limits<double>::infinity();
    for (const Int target : flat.targets(group)) {
        if (taken[target] != table && flat.may_use(table, target)) {
            const double share = largest_share(flat, limits, state, unit, target);
            if (share < least) {
                best = target;
                least = share;
            }
        }
    }
    return best;
}

// Place every table, in `order`, with the given `options`: each unit where the largest load, as a share of its limit, stays least; on
// -1 where none is left. Loads are left to recount; `taken` is [targets] of -1 to work on.
inline void greedy(const FlatProblem& flat, const LoadLimits& limits, const SearchState& state, const FixedInts& order,
                   const FixedInts& options, const Ints& taken) {
    for (const Int table : order) {
        const Int option = options[table], first = flat.slot_first[table];
        state.option[table] = option;
        for (Int offset = 0; offset < flat.units(option); ++offset) {
            const Int unit = flat.option_first_unit[option] + offset;
            const Int target = roomiest_target(flat, limits, state, table, unit, flat.option_group[option], taken);
            if (target >= 0) {
                taken[target] = table;
            }
            state.target[first + offset] = target;
            add(flat, state, unit, target);
        }
    }
}

}  // namespace emplace
