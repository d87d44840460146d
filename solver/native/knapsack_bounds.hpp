// What bounds the search for the pattern worth most: prices of resources, and a grid over two of them.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "knapsack.hpp"

namespace emplace {

// By this the steps of the subgradient method get shorter.
constexpr double SHORTER = 0.955;

// The most that an item of the table adds to the Lagrangian bound, and which one; 0 and -1 where none adds anything.
inline std::pair<double, Int> best_item(const PricedItems& items, const Floats& price, Int table) {
    double top = 0.0;
    Int chosen = -1;
    for (Int item = items.first[table]; item < items.first[table + 1]; ++item) {
        const FixedFloats use = items.use[item];
        double worth = items.value[item];
        for (Int r = 0; r < use.size(); ++r) {
            worth -= price[r] * use[r];
        }
        if (worth > top) {
            top = worth;
            chosen = item;
        }
    }
    return {top, chosen};
}

// The Lagrangian bound at a price, and what it leaves of each resource.
inline double lagrangian(const PricedItems& items, const Floats& price, const Floats& slack) {
    double bound = 0.0;
    for (Int r = 0; r < price.size(); ++r) {
        slack[r] = 1.0;
        bound += price[r];
    }
    for (Int table = 0; table < items.first.size() - 1; ++table) {
        const auto [top, chosen] = best_item(items, price, table);
        bound += top;
        if (chosen >= 0) {
            for (Int r = 0; r < price.size(); ++r) {
                slack[r] -= items.use[chosen][r];
            }
        }
    }
    return bound;
}

// Minimise  sum(price) + sum over tables of max(0, value - price . use)  into prices[1] and `score`; prices[0] moves.
inline void subgradient(const PricedItems& items, const View<double, 2>& prices, const Floats& slack, const Floats& score, double total,
                        Int rounds) {
    const Floats price = prices[0], best = prices[1];
    double least = std::numeric_limits<double>::infinity(), step = 0.5 * total;
    for (Int round = 0; round < rounds; ++round) {
        const double bound = lagrangian(items, price, slack);
        if (bound < least) {
            std::copy(price.begin(), price.end(), best.begin());
            least = bound;
        }
        double norm = 1e-12;
        for (const double left : slack) {
            norm += left * left;
        }
        for (Int r = 0; r < price.size(); ++r) {
            price[r] = std::max(0.0, price[r] - step * slack[r] / std::sqrt(norm));
        }
        step *= SHORTER;
    }
    for (Int table = 0; table < score.size(); ++table) {
        score[table] = best_item(items, best, table).first;
    }
}

// worth[i][j] is the most that is worth with one item more, of `value`, that uses a and b cells.
inline void add_to_grid(const View<double, 2>& worth, const View<double, 2>& without, double value, Int a, Int b) {
    for (Int i = a; i < worth.size(0); ++i) {
        const Floats row = worth[i], from = without[i - a];
        for (Int j = b; j < worth.size(1); ++j) {
            row[j] = std::max(row[j], value + from[j - b]);
        }
    }
}

// The most that at most one item of each table is worth, from the last table up.
inline void fill_grid(const FixedInts& first, const View<const Int, 2>& cell, const FixedFloats& value, const FixedInts& order,
                      const View<double, 3>& worth) {
    for (Int level = order.size() - 1; level >= 0; --level) {
        const View<double, 2> below = worth[level + 1], here = worth[level];
        for (Int i = 0; i < here.size(); ++i) {
            std::copy(below[i].begin(), below[i].end(), here[i].begin());
        }
        for (Int item = first[order[level]]; item < first[order[level] + 1]; ++item) {
            add_to_grid(here, below, value[item], cell[item][0], cell[item][1]);
        }
    }
}

}  // namespace emplace
