// Annealing over moves of one or two tables. A move is taken back if the rule of Metropolis refuses the change of overload and of the
// options' prices.
#pragma once

#include <cmath>
#include <tuple>

#include "balance.hpp"
#include "moves.hpp"

namespace emplace {

// Moves between two changes of temperature, and between two looks at how the target is split between the stages.
constexpr Int COOL_EVERY = 256, ANNEALING_BALANCE_EVERY = 2048;
// The share of the target that is then moved, at first.
constexpr double ANNEALING_BALANCE_STEP = 1e-3;

// A part of a run: Schedule of solver/local_search/state.py.
struct Schedule {
    double done;
    double work;
    double total;
    double hot;
    double cold;
    double move_work;

    template <typename Fields>
    static Schedule from(const Fields& given) {
        return {given["done"], given["work"], given["total"], given["hot"], given["cold"], given["move_work"]};
    }
};

// The change of overload, and of the options' prices.
inline double energy_of(const FlatProblem& flat, const SearchState& state, const Journal& journal, double overload_change) {
    double energy = overload_change;
    for (Int index = 0; index < 2; ++index) {
        if (journal.table[index] >= 0) {
            energy += flat.option_price[journal.option[index]] - flat.option_price[state.option[journal.table[index]]];
        }
    }
    return energy;
}

// The rule of Metropolis.
inline bool accepts(const SearchState& state, double energy, double temperature) {
    return energy <= 0.0 || energy < -temperature * std::log((static_cast<double>(random_bits(state)) + 1.0) / 2147483648.0);
}

// Anneal as scheduled; stop at no overload. Returns the overload, the work done and the number of moves.
inline std::tuple<double, double, Int> anneal(const FlatProblem& flat, const LoadLimits& limits, const SearchState& state,
                                              const Journal& journal, double overload, const Schedule& schedule) {
    Int moves = 0;
    double spent = 0.0, temperature = schedule.hot;
    while (spent < schedule.work) {
        const double progress = std::min((schedule.done + spent) / schedule.total, 1.0);
        if (moves % COOL_EVERY == 0) {
            temperature = schedule.hot * std::pow(schedule.cold / schedule.hot, progress);
            look_for_overload(state);
        }
        if (moves % ANNEALING_BALANCE_EVERY == 0) {
            weigh_memory(limits, state);
            if (state.columns() > 2) {
                balance(limits, state, ANNEALING_BALANCE_STEP * (1.0 - progress));
            }
            overload = reprice(limits, state);
        }
        moves += 1;
        begin(journal);
        const bool proposed = propose(flat, limits, state, journal);
        spent += schedule.move_work + static_cast<double>(journal.clock[1]);
        const double change = change_of(state, journal);
        if (proposed && accepts(state, energy_of(flat, state, journal, change), temperature)) {
            overload += change;
            commit(flat, state, journal);
            if (overload < 1e-9 && overload_of(state) == 0.0) {
                return {0.0, spent, moves};
            }
        } else {
            take_back(state, journal);
        }
    }
    return {overload, spent, moves};
}

}  // namespace emplace
