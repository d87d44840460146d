// A plan in a moment: tables one after the other, each into the best place left. The records are those of solver/heuristics/greedy.py.
#pragma once

#include <algorithm>
#include <limits>

#include "problem.hpp"

namespace emplace {

struct Strategy {
    FixedInts tables;
    FixedInts preferred;
    FixedInts least_hbm;
    bool spread_bytes;

    template <typename Fields>
    static Strategy from(const Fields& given) {
        return {given["tables"], given["preferred"], given["least_hbm"], given["spread_bytes"]};
    }
};

struct Room {
    Floats hbm;
    FixedFloats kept;
    Floats ddr;
    Floats time_us;
    View<const double, 2> unit_time_us;
    Floats pool_bytes;
    View<bool, 1> taken;

    template <typename Fields>
    static Room from(const Fields& given) {
        return {given["hbm"],          given["kept"],       given["ddr"],  given["time_us"],
                given["unit_time_us"], given["pool_bytes"], given["taken"]};
    }
};

inline double hbm_bytes(const FlatProblem& flat, Int unit, Int kind) {
    const FixedFloats load = flat.unit_load[unit][kind];
    return load[load.size() - 1];
}

inline void clear_pools(const FlatProblem& flat, const Room& room, Int target) {
    for (const Int device : flat.holding(target)) {
        room.pool_bytes[flat.pool[device]] = 0.0;
    }
}

// Whether a target has room for a unit and keeps `keep` of the HBM that is to be kept.
inline bool holds(const FlatProblem& flat, const Room& room, Int unit, Int target, double keep) {
    for (const Int device : flat.holding(target)) {
        if (room.hbm[device] - keep * room.kept[device] < hbm_bytes(flat, unit, flat.kind[device])) {
            return false;
        }
    }
    bool fits = true;
    for (const Int device : flat.holding(target)) {
        const Int pool = flat.pool[device];
        room.pool_bytes[pool] += flat.unit_ddr[unit][flat.kind[device]];
        fits = fits && room.pool_bytes[pool] <= room.ddr[pool];
    }
    clear_pools(flat, room, target);
    return fits;
}

// All that is free on a target and in its pools.
inline double free_bytes(const FlatProblem& flat, const Room& room, Int target) {
    double free = 0.0;
    for (const Int device : flat.holding(target)) {
        const Int pool = flat.pool[device];
        free += room.hbm[device] + (room.pool_bytes[pool] == 0.0 ? room.ddr[pool] : 0.0);
        room.pool_bytes[pool] = 1.0;
    }
    clear_pools(flat, room, target);
    return free;
}

inline double busy_us(const FlatProblem& flat, const Room& room, Int target) {
    double busy = 0.0;
    for (const Int device : flat.holding(target)) {
        busy = std::max(busy, room.time_us[device]);
    }
    return busy;
}

// The best target that has room for a unit and leaves `keep` of the HBM that is to be kept; -1 where none has.
inline Int best_target(const FlatProblem& flat, const Strategy& strategy, const Room& room, Int table, Int option, Int unit, double keep) {
    Int best = -1;
    double least = std::numeric_limits<double>::infinity();
    for (const Int target : flat.targets(flat.option_group[option])) {
        if (!room.taken[target] && flat.may_use(table, target) && holds(flat, room, unit, target, keep)) {
            const double rank = strategy.spread_bytes ? -free_bytes(flat, room, target) : busy_us(flat, room, target);
            if (rank < least) {
                best = target;
                least = rank;
            }
        }
    }
    return best;
}

// Take what a unit needs (+1), or give it back (-1).
inline void book(const FlatProblem& flat, const Room& room, Int unit, Int target, double sign) {
    for (const Int device : flat.covered(target)) {
        const Int kind = flat.kind[device];
        room.hbm[device] -= sign * hbm_bytes(flat, unit, kind);
        room.ddr[flat.pool[device]] -= sign * flat.unit_ddr[unit][kind];
        room.time_us[device] += sign * room.unit_time_us[unit][kind];
    }
}

// Targets for the units of an option, all booked; or false, with nothing booked.
inline bool place(const FlatProblem& flat, const Strategy& strategy, const Room& room, Int table, Int option, double keep,
                  const Ints& target) {
    const Int slot = flat.slot_first[table], first = flat.option_first_unit[option], units = flat.units(option);
    Int placed = 0;
    while (placed < units) {
        const Int best = best_target(flat, strategy, room, table, option, first + placed, keep);
        if (best < 0) {
            break;
        }
        book(flat, room, first + placed, best, 1.0);
        target[slot + placed] = best;
        room.taken[best] = true;
        placed += 1;
    }
    for (Int unit = 0; unit < placed; ++unit) {
        room.taken[target[slot + unit]] = false;
        if (placed < units) {
            book(flat, room, first + unit, target[slot + unit], -1.0);
        }
    }
    return placed == units;
}

// The first option of a table, in this order, that finds its places; -1 where none does.
inline Int first_that_fits(const FlatProblem& flat, const Strategy& strategy, const Room& room, Int table, const FixedInts& order,
                           double keep, const Ints& target) {
    for (const Int option : order.part(flat.candidate_first[table], flat.candidate_first[table + 1])) {
        if (place(flat, strategy, room, table, option, keep, target)) {
            return option;
        }
    }
    return -1;
}

// Place every table: the preferred option that leaves some HBM free; where there is none, the one that takes the least of it.
//
// Writes the option of each table and the targets of its slots; false where a table found no place.
inline bool place_all(const FlatProblem& flat, const Strategy& strategy, const Room& room, const Ints& option, const Ints& target) {
    for (const Int table : strategy.tables) {
        option[table] = first_that_fits(flat, strategy, room, table, strategy.preferred, 1.0, target);
        if (option[table] < 0) {
            option[table] = first_that_fits(flat, strategy, room, table, strategy.least_hbm, 0.0, target);
        }
        if (option[table] < 0) {
            return false;
        }
    }
    return true;
}

}  // namespace emplace
