// The best way to split slots between two devices: Split of solver/local_search/state.py.
#pragma once

#include <algorithm>
#include <array>
#include <utility>

#include "loads.hpp"

namespace emplace {

// Sides tried for one pair; then the best split so far is taken.
constexpr Int MOST_WAYS = 16'000;
// Only no overload at all is less.
constexpr double NOTHING = 1e-300;

// Two devices: side 0 and side 1.
using Pair = std::array<Int, 2>;

struct Split {
    Ints slot;
    View<double, 2> load;
    Floats size;
    View<double, 2> limit;
    View<double, 2> weight;
    Floats square_weight;
    View<double, 3> held;
    Ints side;
    Ints tried;
    Ints best;

    template <typename Fields>
    static Split from(const Fields& given) {
        return {given["slot"],          given["load"], given["size"], given["limit"], given["weight"],
                given["square_weight"], given["held"], given["side"], given["tried"], given["best"]};
    }
};

// Write a slot and its loads to a place of `split`.
inline void note(const FlatProblem& flat, const SearchState& state, const Split& split, Int slot, Int place) {
    const Int table = flat.slot_table[slot];
    const Int unit = flat.option_first_unit[state.option[table]] + slot - flat.slot_first[table];
    const Int kind = flat.kind[state.target[slot]];
    const FixedFloats added = flat.unit_load[unit][kind];
    split.slot[place] = slot;
    std::copy(added.begin(), added.end(), split.load[place].begin());
    split.load[place][state.columns()] = flat.unit_ddr[unit][kind];
}

// How many columns of `Split` count: all but the last where both draw on one pool.
inline Int columns_of(const FlatProblem& flat, const SearchState& state, const Pair& pair) {
    return state.columns() + (flat.pool[pair[0]] != flat.pool[pair[1]] ? 1 : 0);
}

// Overload of two devices, and of their pools where these differ.
inline double cost_of(const FlatProblem& flat, const SearchState& state, const Pair& pair) {
    const Int one = flat.pool[pair[0]], two = flat.pool[pair[1]];
    double cost = state.cost[pair[0]] + state.cost[pair[1]];
    if (one != two) {
        cost += state.ddr_cost[one] + state.ddr_cost[two];
    }
    return cost;
}

// Limits and weights of both sides, and the loads of both devices as they are.
inline void take_limits(const FlatProblem& flat, const LoadLimits& limits, const SearchState& state, const Split& split, const Pair& pair) {
    const Int loads = state.columns();
    for (Int side = 0; side < 2; ++side) {
        const Int device = pair[side], pool = flat.pool[device];
        const Floats held = split.held[0][side], limit = split.limit[side], weight = split.weight[side];
        for (Int column = 0; column < loads; ++column) {
            held[column] = state.load[device][column];
            limit[column] = limits.load[device][column];
            weight[column] = limits.weight[column];
            split.square_weight[column] = limits.square_weight[column];
        }
        held[loads] = state.ddr[pool];
        limit[loads] = limits.ddr[pool];
        weight[loads] = limits.ddr_weight[pool];
        split.square_weight[loads] = 0.0;
    }
}

// The largest slots first.
inline void sort_by_size(const Split& split, Int count) {
    for (Int index = 0; index < count; ++index) {
        Int largest = index;
        for (Int other = index + 1; other < count; ++other) {
            if (split.size[other] > split.size[largest]) {
                largest = other;
            }
        }
        if (largest != index) {
            const Floats load = split.load[index];
            std::swap(split.size[index], split.size[largest]);
            std::swap(split.slot[index], split.slot[largest]);
            std::swap_ranges(load.begin(), load.end(), split.load[largest].begin());
        }
    }
}

// Limits, the loads of both devices without any slot, and the largest slots first.
inline void prepare(const FlatProblem& flat, const LoadLimits& limits, const SearchState& state, const Split& split, const Pair& pair,
                    Int count) {
    const Int columns = columns_of(flat, state, pair);
    take_limits(flat, limits, state, split, pair);
    for (Int index = 0; index < count; ++index) {
        const Int here = state.target[split.slot[index]] == pair[0] ? 0 : 1;
        const Floats held = split.held[0][here], load = split.load[index];
        double size = 0.0;
        for (Int column = 0; column < columns; ++column) {
            held[column] -= load[column];
            size = std::max(size, load[column] / std::max(split.limit[0][column], 1e-9));
        }
        split.size[index] = size;
    }
    sort_by_size(split, count);
}

// What of a load exceeds its limit. Written so that it takes no branch: which way it goes can't be foretold.
inline double excess(double load, double limit) { return std::max(load, limit) - limit; }

// The overload of both sides with the slot at `depth` on `side`; what they hold then is written for the next depth.
inline double put_on(const Split& split, Int depth, Int side, Int columns) {
    const Int across = 1 - side;
    const View<double, 2> before = split.held[depth], after = split.held[depth + 1];
    const Floats load = split.load[depth], here_before = before[side], there_before = before[across];
    const Floats here_after = after[side], there_after = after[across];
    const Floats limit = split.limit[side], limit_across = split.limit[across];
    const Floats weight = split.weight[side], weight_across = split.weight[across], square_weight = split.square_weight;
    double cost = 0.0;
    for (Int column = 0; column < columns; ++column) {
        const double here = here_before[column] + load[column], there = there_before[column];
        here_after[column] = here;
        there_after[column] = there;
        cost += priced(excess(here, limit[column]), weight[column], square_weight[column]);
        cost += priced(excess(there, limit_across[column]), weight_across[column], square_weight[column]);
    }
    return cost;
}

// Whether there is a split with an overload below `least`, and how many sides were tried.
//
// Depth first, the largest slots first, each to a random side first; a side that is overloaded too much already is left. `split` is a copy
// of the views, whose shapes the compiler then knows not to change.
inline std::pair<bool, Int> best_split(const FlatProblem& flat, const LoadLimits& limits, const SearchState& state, Split split,
                                       const Pair& pair, Int count, double least) {
    prepare(flat, limits, state, split, pair, count);
    const Int first_sides = random_bits(state), columns = columns_of(flat, state, pair);
    if (count == 0) {
        return {false, 0};
    }
    bool found = false;
    Int ways = 0, depth = 0;
    split.tried[0] = 0;
    while (depth >= 0 && ways < MOST_WAYS) {
        if (split.tried[depth] == 2) {
            depth -= 1;
            continue;
        }
        const Int side = (split.tried[depth] + (first_sides >> depth)) & 1;
        split.tried[depth] += 1;
        ways += 1;
        const double cost = put_on(split, depth, side, columns);
        if (cost >= least) {
            continue;
        }
        split.side[depth] = side;
        if (depth + 1 < count) {
            depth += 1;
            split.tried[depth] = 0;
            continue;
        }
        found = true;
        least = cost;
        std::copy(split.side.begin(), split.side.begin() + count, split.best.begin());
        if (cost == 0.0) {
            break;
        }
    }
    return {found, ways};
}

}  // namespace emplace
