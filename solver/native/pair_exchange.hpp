// What two devices hold is split between them anew, the best way taken.
//
// Annealing changes one or two tables at a time; where several stages must balance at once, its moves rarely fit. Two devices that trade
// any number of their tables do so more often. Two devices without overload are split anew at random: that costs next to nothing, and what
// they then hold may be what an overloaded one needs.
#pragma once

#include <stdexcept>
#include <utility>

#include "balance.hpp"
#include "option_exchange.hpp"

namespace emplace {

// Pairs between two looks at how the target is split between the stages, and the share of it then moved.
constexpr Int PAIRS_BALANCE_EVERY = 64;
constexpr double PAIRS_BALANCE_STEP = 2e-4;
// Pairs without success, per device, after which there is nothing left to find.
constexpr Int STALE = 30;

// Split overloaded devices' tables anew with other devices until `work` is done, nothing is overloaded or nothing more is found; returns
// the overload and the work done. A pair counts for `pair_work` to begin with, and each side tried for `way_work`.
inline std::pair<double, double> resplit_pairs(const FlatProblem& flat, const LoadLimits& limits, const SearchState& state,
                                               const Journal& journal, double work, double pair_work, double way_work) {
    if (state.columns() >= MOST_COLUMNS) {
        throw std::invalid_argument("pairs are split by at most six stages, HBM and system memory");
    }
    Split split;
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
        const double before = cost_of(flat, state, pair);
        const bool with_option = below(state, 2) != 0;
        const auto [found, ways] = with_option ? exchange_option(flat, limits, state, journal, split, pair)
                                               : exchange(flat, limits, state, split, pair, std::max(before * (1.0 - 1e-9), NOTHING));
        spent += way_work * static_cast<double>(ways);
        stale = found && before > 0.0 ? 0 : stale;
    }
    return {overload_of(state), spent};
}

}  // namespace emplace
