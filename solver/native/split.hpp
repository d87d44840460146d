// The best way to split slots between two devices.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "loads.hpp"

namespace emplace {

// Slots of two devices that may change sides at once; of more, some are drawn.
constexpr Int MOST_SLOTS = 20;
// Sides tried for one pair; then the best split so far is taken.
constexpr Int MOST_WAYS = 16'000;
// Only no overload at all is less.
constexpr double NOTHING = 1e-300;
// Share of two limits by which a sum of loads may exceed them and be within, as other sums of the same loads are.
constexpr double SUM_ROUNDING = 1e-12;

// Columns of a row: the stages of a step that depend on the placement, HBM, and the system memory of the devices' pools. Two of them are
// worked on at once.
constexpr Int MOST_COLUMNS = 8, WIDE = 2;
using Row = std::array<double, MOST_COLUMNS>;
using Wide = double __attribute__((vector_size(WIDE * sizeof(double))));

// Two devices: side 0 and side 1.
using Pair = std::array<Int, 2>;

// Splits that are gone on with at once: each hardly takes longer than the first, as none waits for what another comes to.
constexpr Int ABREAST = 4;

// Splits of as many slots as a level is deep, which are still to be gone on with.
struct Level {
    Int count;
    // What the first device then holds.
    std::array<Row, 2 * ABREAST> held;
    // Sides of the slots, a bit each.
    std::array<Int, 2 * ABREAST> sides;
    std::array<double, 2 * ABREAST> cost;
};

// What two devices hold and may trade.
struct Split {
    Int count;
    std::array<Int, MOST_SLOTS> slot;
    // What a slot adds to the first device on side 0, and on side 1: nothing.
    std::array<std::array<Row, 2>, MOST_SLOTS> load;
    // What both hold together, with as many of the slots.
    std::array<Row, MOST_SLOTS + 1> both;
    std::array<Row, 2> limit;
    std::array<Row, 2> weight;
    Row square_weight;
    // What both sides together cost in any split.
    Row least;
    std::array<Level, MOST_SLOTS + 1> levels;
    // Sides of the best split.
    Int best;
};

// Write a slot and its loads to a place of `split`.
inline void note(const FlatProblem& flat, const SearchState& state, Split& split, Int slot, Int place) {
    const Int table = flat.slot_table[slot];
    const Int unit = flat.option_first_unit[state.option[table]] + slot - flat.slot_first[table];
    const Int kind = flat.kind[state.target[slot]];
    const FixedFloats added = flat.unit_load[unit][kind];
    Row& load = split.load[place][0];
    split.slot[place] = slot;
    load.fill(0.0);
    split.load[place][1].fill(0.0);
    std::copy(added.begin(), added.end(), load.begin());
    load[state.columns()] = flat.unit_ddr[unit][kind];
}

// Whether a slot that changes sides takes system memory from one pool to another.
inline bool moves_ddr(const FlatProblem& flat, const SearchState& state, const Split& split, const Pair& pair) {
    const auto end = split.load.begin() + split.count;
    return flat.pool[pair[0]] != flat.pool[pair[1]] &&
           std::any_of(split.load.begin(), end, [&state](const auto& load) { return load[0][state.columns()] != 0.0; });
}

// Overload of the pools of two devices, where these differ.
inline double pools_cost(const FlatProblem& flat, const SearchState& state, const Pair& pair) {
    const Int one = flat.pool[pair[0]], two = flat.pool[pair[1]];
    return one == two ? 0.0 : state.ddr_cost[one] + state.ddr_cost[two];
}

// Overload of two devices, and of their pools where these differ.
inline double cost_of(const FlatProblem& flat, const SearchState& state, const Pair& pair) {
    return state.cost[pair[0]] + state.cost[pair[1]] + pools_cost(flat, state, pair);
}

// Limits and weights of both sides, and what they hold together. Columns beyond the first `columns` cost nothing.
inline void take_limits(const FlatProblem& flat, const LoadLimits& limits, const SearchState& state, Split& split, const Pair& pair,
                        Int columns) {
    const Int loads = state.columns();
    Row& both = split.both[split.count];
    both.fill(0.0);
    split.square_weight.fill(0.0);
    std::copy(limits.square_weight.begin(), limits.square_weight.end(), split.square_weight.begin());
    for (Int side = 0; side < 2; ++side) {
        const Int device = pair[side], pool = flat.pool[device];
        Row &limit = split.limit[side], &weight = split.weight[side];
        limit.fill(0.0);
        weight.fill(0.0);
        for (Int column = 0; column < loads; ++column) {
            both[column] += state.load[device][column];
            limit[column] = limits.load[device][column];
            weight[column] = limits.weight[column];
        }
        both[loads] += state.ddr[pool];
        limit[loads] = limits.ddr[pool];
        weight[loads] = columns > loads ? limits.ddr_weight[pool] : 0.0;
    }
}

// What each column costs at least, however both loads are split: what is too much for both, half of it on either side.
inline void take_least(Split& split) {
    for (Int column = 0; column < MOST_COLUMNS; ++column) {
        const double limit = split.limit[0][column] + split.limit[1][column];
        const double over = split.both[split.count][column] - limit * (1.0 + SUM_ROUNDING);
        const double weight = std::min(split.weight[0][column], split.weight[1][column]);
        split.least[column] = priced(std::max(over, 0.0), weight, split.square_weight[column] / 2.0);
    }
}

// The largest slots first, by the largest share of a limit.
inline void sort_by_size(Split& split, Int columns) {
    std::array<std::pair<double, Int>, MOST_SLOTS> order;
    for (Int index = 0; index < split.count; ++index) {
        double size = 0.0;
        for (Int column = 0; column < columns; ++column) {
            size = std::max(size, split.load[index][0][column] / std::max(split.limit[0][column], 1e-9));
        }
        order[index] = {-size, index};
    }
    std::sort(order.begin(), order.begin() + split.count);
    const auto slot = split.slot;
    const auto load = split.load;
    for (Int index = 0; index < split.count; ++index) {
        split.slot[index] = slot[order[index].second];
        split.load[index][0] = load[order[index].second][0];
    }
}

// Limits, the least that any split costs, the largest slots first, and what both devices hold with the first ones.
inline void prepare(const FlatProblem& flat, const LoadLimits& limits, const SearchState& state, Split& split, const Pair& pair,
                    Int columns) {
    take_limits(flat, limits, state, split, pair, columns);
    take_least(split);
    sort_by_size(split, columns);
    Level& first = split.levels[0];
    first.count = 1;
    first.sides[0] = 0;
    Row& held = first.held[0];
    held.fill(0.0);
    std::copy(state.load[pair[0]].begin(), state.load[pair[0]].end(), held.begin());
    held[state.columns()] = state.ddr[flat.pool[pair[0]]];
    for (Int index = split.count - 1; index >= 0; --index) {
        const Row& load = split.load[index][0];
        const bool is_here = state.target[split.slot[index]] == pair[0];
        for (Int column = 0; column < MOST_COLUMNS; ++column) {
            split.both[index][column] = split.both[index + 1][column] - load[column];
            held[column] -= is_here ? load[column] : 0.0;
        }
    }
}

inline Wide wide(const Row& row, Int column) {
    Wide columns;
    std::memcpy(&columns, row.data() + column, sizeof(columns));
    return columns;
}

inline void write(Wide columns, Row& row, Int column) { std::memcpy(row.data() + column, &columns, sizeof(columns)); }

inline Wide larger(Wide one, Wide other) { return one > other ? one : other; }

// What loads beyond a limit cost.
inline Wide priced_beyond(Wide held, Wide limit, Wide weight, Wide square_weight) {
    const Wide over = larger(held, limit) - limit;
    return over * (weight + square_weight * over);
}

// Write what the first device holds with `added` to what it held before, and return what both then cost at least.
template <Int COLUMNS>
double put_on(const Split& split, const Row& before, const Row& added, const Row& both, Row& held) {
    Wide cost{};
    for (Int column = 0; column < COLUMNS; column += WIDE) {
        const Wide here = wide(before, column) + wide(added, column), square_weight = wide(split.square_weight, column);
        const Wide one = priced_beyond(here, wide(split.limit[0], column), wide(split.weight[0], column), square_weight);
        const Wide across = wide(both, column) - here;
        const Wide two = priced_beyond(across, wide(split.limit[1], column), wide(split.weight[1], column), square_weight);
        write(here, held, column);
        cost += larger(one + two, wide(split.least, column));
    }
    return cost[0] + cost[1];
}

// Go on with the last splits of a level: the next slot on either side, `first_side` last. Those that cost less than `least` are kept.
template <Int COLUMNS>
Int go_on(Split& split, Int depth, Int first_side, double least) {
    Level &level = split.levels[depth], &next = split.levels[depth + 1];
    const Int end = level.count;
    level.count = std::max(end - ABREAST, Int{0});
    Int kept = 0;
    for (Int index = level.count; index < end; ++index) {
        for (const Int side : {1 - first_side, first_side}) {
            const double cost = put_on<COLUMNS>(split, level.held[index], split.load[depth][side], split.both[depth + 1], next.held[kept]);
            next.sides[kept] = level.sides[index] | side << depth;
            next.cost[kept] = cost;
            kept += cost < least ? 1 : 0;
        }
    }
    next.count = kept;
    return 2 * (end - level.count);
}

// Whether there is a split with an overload below `least`, and how many sides were tried.
//
// Depth first, a few abreast, the largest slots first, each to a random side first; a split that costs too much already is left.
template <Int COLUMNS>
std::pair<bool, Int> search_splits(Split& split, Int first_sides, double least) {
    bool found = false;
    Int ways = 0, depth = 0;
    while (depth >= 0 && ways < MOST_WAYS) {
        if (split.levels[depth].count == 0) {
            depth -= 1;
            continue;
        }
        ways += go_on<COLUMNS>(split, depth, (first_sides >> depth) & 1, least);
        if (depth + 1 < split.count) {
            depth += 1;
            continue;
        }
        const Level& whole = split.levels[split.count];
        for (Int index = 0; index < whole.count; ++index) {
            if (whole.cost[index] < least) {
                found = true;
                least = whole.cost[index];
                split.best = whole.sides[index];
            }
        }
        if (least == 0.0) {
            break;
        }
    }
    return {found, ways};
}

// The best split with an overload below `least`: whether there is one, and how many sides were tried.
inline std::pair<bool, Int> best_split(const FlatProblem& flat, const LoadLimits& limits, const SearchState& state, Split& split,
                                       const Pair& pair, double least) {
    const Int first_sides = random_bits(state);
    if (split.count == 0) {
        return {false, 0};
    }
    Int columns = state.columns();
    if (moves_ddr(flat, state, split, pair)) {
        columns += 1;
    } else {
        least -= pools_cost(flat, state, pair);
    }
    prepare(flat, limits, state, split, pair, columns);
    return columns <= 4   ? search_splits<4>(split, first_sides, least)
           : columns <= 6 ? search_splits<6>(split, first_sides, least)
                          : search_splits<8>(split, first_sides, least);
}

}  // namespace emplace
