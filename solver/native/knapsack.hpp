// The search for the pattern worth most: a multiple-choice knapsack with several resources, depth first. The records are those of
// solver/patterns/knapsack.py.
#pragma once

#include <algorithm>

#include "view.hpp"

namespace emplace {

struct PricedItems {
    FixedInts first;
    View<const double, 2> use;
    View<const double, 2> time;
    FixedFloats value;
    FixedFloats lower;
    double limit;
    double capacity;

    template <typename Fields>
    static PricedItems from(const Fields& given) {
        return {given["first"], given["use"], given["time"], given["value"], given["lower"], given["limit"], given["capacity"]};
    }
};

struct Grid {
    FixedInts resource;
    FixedFloats price;
    View<const double, 3> worth;
    double capacity;

    template <typename Fields>
    static Grid from(const Fields& given) {
        return {given["resource"], given["price"], given["worth"], given["capacity"]};
    }

    bool is_there() const { return worth.size() > 0; }
};

struct Bounds {
    FixedInts order;
    FixedFloats suffix;
    FixedFloats multiplier;
    Grid grid;

    template <typename Fields>
    static Bounds from(const Fields& given) {
        return {given["order"], given["suffix"], given["multiplier"], given["grid"]};
    }
};

struct Path {
    View<double, 2> used;
    View<double, 2> spent;
    Floats worth;
    Ints at;
    Ints chosen;
    Ints best;
    Ints steps;

    template <typename Fields>
    static Path from(const Fields& given) {
        return {given["used"], given["spent"], given["worth"], given["at"], given["chosen"], given["best"], given["steps"]};
    }
};

// Adds an item (-1: nothing) to what is used at `level`, for the next level; whether it fits.
inline bool add_item(const PricedItems& items, Int item, Int level, const Path& path) {
    const Floats used = path.used[level], used_with = path.used[level + 1];
    const Floats spent = path.spent[level], spent_with = path.spent[level + 1];
    if (item < 0) {
        std::copy(used.begin(), used.end(), used_with.begin());
        std::copy(spent.begin(), spent.end(), spent_with.begin());
    } else {
        const FixedFloats use = items.use[item], time = items.time[item];
        for (Int r = 0; r < used.size(); ++r) {
            used_with[r] = used[r] + use[r];
        }
        for (Int k = 0; k < spent.size(); ++k) {
            spent_with[k] = spent[k] + time[k];
        }
    }
    double total = 0.0;
    for (Int k = 0; k < spent.size(); ++k) {
        total += std::max(items.lower[k], spent_with[k]);
    }
    const auto fits = [&items](double share) { return share <= items.capacity; };
    return total <= items.limit && std::all_of(used_with.begin(), used_with.end(), fits);
}

// What the resources that are left, with `used` of each, are worth at most.
inline double spare_worth(const FixedFloats& price, const FixedFloats& used) {
    double worth = 0.0;
    for (Int r = 0; r < price.size(); ++r) {
        worth += price[r] * (1.0 - used[r]);
    }
    return worth;
}

// The cell of what is left of a resource.
inline Int cell_of(const Grid& grid, double used, int axis) {
    return static_cast<Int>((grid.capacity - used) * static_cast<double>(grid.worth.size(axis) - 1));
}

// What tables at this level and below add at most, in the grid.
inline double left_in_grid(const Grid& grid, const FixedFloats& used, Int level) {
    const Int i = cell_of(grid, used[grid.resource[0]], 1), j = cell_of(grid, used[grid.resource[1]], 2);
    return spare_worth(grid.price, used) + grid.worth[level][i][j];
}

// Whether what is decided above `level` may still become worth more than `top`.
inline bool may_exceed(const Bounds& bounds, const Path& path, Int level, double top) {
    const FixedFloats used{path.used[level].begin(), {path.used.size(1)}};
    if (!(path.worth[level] + bounds.suffix[level] + spare_worth(bounds.multiplier, used) > top)) {
        return false;
    }
    return !bounds.grid.is_there() || path.worth[level] + left_in_grid(bounds.grid, used, level) > top;
}

// The most that a pattern above `threshold` is worth, its items in `path.best`; `threshold` where there is none.
//
// Level j decides on table order[j]: its items in turn, then none.
inline double search_patterns(const PricedItems& items, const Bounds& bounds, const Path& path, double threshold, Int most_steps) {
    const FixedInts &first = items.first, &order = bounds.order;
    double top = threshold;
    Int level = 0;
    path.at[0] = first[order[0]];
    while (level >= 0) {
        if (level == order.size()) {
            if (path.worth[level] > top) {
                top = path.worth[level];
                std::copy(path.chosen.begin(), path.chosen.end(), path.best.begin());
            }
            level -= 1;
            continue;
        }
        const Int table = order[level], next = path.at[level], end = first[table + 1];
        if (next > end) {
            level -= 1;
            continue;
        }
        path.at[level] += 1;
        path.steps[0] += 1;
        if (path.steps[0] >= most_steps) {
            path.steps[1] = 1;
            return top;
        }
        const Int item = next < end ? next : -1;
        path.chosen[table] = item;
        path.worth[level + 1] = path.worth[level] + (item >= 0 ? items.value[item] : 0.0);
        if (add_item(items, item, level, path) && may_exceed(bounds, path, level + 1, top)) {
            level += 1;
            if (level < order.size()) {
                path.at[level] = first[order[level]];
            }
        }
    }
    return top;
}

}  // namespace emplace
