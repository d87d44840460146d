// What two devices hold is split between them anew, the best way taken.
//
// Annealing changes one or two tables at a time; where several stages must balance at once, its moves rarely fit. Two devices that trade
// any number of their tables do so more often. Two devices without overload are split anew at random: that costs next to nothing, and what
// they then hold may be what an overloaded one needs.
#pragma once

#include <utility>

#include "balance.hpp"
#include "split.hpp"

namespace emplace {

// Pairs between two looks at how the target is split between the stages, and the share of it then moved.
constexpr Int PAIRS_BALANCE_EVERY = 64;
constexpr double PAIRS_BALANCE_STEP = 2e-4;
// Pairs without success, per device, after which there is nothing left to find.
constexpr Int STALE = 30;

// Whether a slot's table may use `there` and is not there yet.
inline bool may_go(const FlatProblem& flat, const SearchState& state, Int slot, Int there) {
    const Int table = flat.slot_table[slot], first = flat.slot_first[table];
    const Ints targets = state.target.part(first, first + flat.units(state.option[table]));
    return flat.may_use(table, there) && std::find(targets.begin(), targets.end(), there) == targets.end();
}

// Append to the `count` slots of `split` those on `here` that may go `there`; once full, each later one replaces an earlier one at random.
inline Int gather(const FlatProblem& flat, const SearchState& state, const Split& split, Int here, Int there, Int count) {
    const Int room = split.slot.size();
    Int seen = count;
    for (Int slot = state.head[here]; slot >= 0; slot = state.next[slot]) {
        if (may_go(flat, state, slot, there)) {
            const Int place = seen < room ? seen : below(state, seen + 1);
            if (place < room) {
                note(flat, state, split, slot, place);
            }
            seen += 1;
        }
    }
    return std::min(seen, room);
}

// Put every slot on the side that the best split gives it.
inline void apply(const FlatProblem& flat, const LoadLimits& limits, const SearchState& state, const Split& split, const Pair& pair,
                  Int count) {
    const Int loads = state.columns();
    for (Int index = 0; index < count; ++index) {
        const Int slot = split.slot[index], here = state.target[slot], there = pair[split.best[index]];
        if (here == there) {
            continue;
        }
        const Floats load = split.load[index];
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

// Split overloaded devices' tables anew with other devices until `work` is done, nothing is overloaded or nothing more is found; returns
// the overload and the work done. A pair counts for `pair_work` to begin with, and each side tried for `way_work`.
inline std::pair<double, double> resplit_pairs(const FlatProblem& flat, const LoadLimits& limits, const SearchState& state,
                                               const Split& split, double work, double pair_work, double way_work) {
    double spent = 0.0;
    for (Int stale = 0, pairs = 0; spent < work && stale < STALE * state.devices(); ++pairs) {
        if (pairs % PAIRS_BALANCE_EVERY == 0) {
            if (overload_of(state) <= 1e-9) {
                break;
            }
            if (state.columns() > 2) {
                balance(limits, state, PAIRS_BALANCE_STEP);
                reprice(limits, state);
            }
            look_for_overload(state);
        }
        Pair pair{};
        pair[0] = loaded_device(state);
        pair[1] = below(state, state.devices());
        if (below(state, 2) != 0) {
            pair[0] = below(state, state.devices());
        }
        spent += pair_work;
        stale += 1;
        if (pair[0] == pair[1] || flat.kind[pair[0]] != flat.kind[pair[1]]) {
            continue;
        }
        Int count = gather(flat, state, split, pair[0], pair[1], 0);
        count = gather(flat, state, split, pair[1], pair[0], count);
        const auto [found, ways] = best_split(flat, limits, state, split, pair, count);
        spent += way_work * static_cast<double>(ways);
        if (found) {
            stale = cost_of(flat, state, pair) > 0.0 ? 0 : stale;
            apply(flat, limits, state, split, pair, count);
        }
    }
    return {overload_of(state), spent};
}

}  // namespace emplace
