// All patterns that one device can hold, for solver/branch_and_price/leaf.py.
#pragma once

#include <algorithm>

#include "view.hpp"

namespace emplace {

// Whether an item can be added to what is used.
inline bool fits(const FixedFloats& use, const FixedFloats& used, double limit) {
    bool within = true;
    for (Int r = 0; r < use.size(); ++r) {
        within = within && used[r] + use[r] <= limit;
    }
    return within;
}

// Whether no item of a table without one fits any more.
inline bool is_full(const FixedInts& first, const View<const double, 2>& use, const FixedFloats& used, const Ints& chosen) {
    for (Int table = 0; table < chosen.size(); ++table) {
        for (Int item = first[table]; chosen[table] < 0 && item < first[table + 1]; ++item) {
            if (fits(use[item], used, 1.0)) {
                return false;
            }
        }
    }
    return true;
}

// How many patterns there are to which nothing can be added, each written to a row of `held`; -1 if they are too many for it or for
// `most_steps`. Sums of use stay within `limit`. `used` [T + 1, R], `at` [T + 1] and `chosen` [T] of -1 are space to work on.
inline Int enumerate_patterns(const FixedInts& first, const View<const double, 2>& use, const FixedInts& order, const View<double, 2>& used,
                              const Ints& at, const Ints& chosen, const View<Int, 2>& held, double limit, Int most_steps) {
    const Int tables = order.size(), resources = use.size(1);
    const auto used_at = [&](Int level) { return FixedFloats(used[level].begin(), {resources}); };
    Int count = 0, level = 0;
    at[0] = first[order[0]];
    for (Int step = 0; step < most_steps; ++step) {
        if (level < 0) {
            return count;
        }
        if (level == tables) {
            if (is_full(first, use, used_at(level), chosen)) {
                if (count == held.size()) {
                    return -1;
                }
                std::copy(chosen.begin(), chosen.end(), held[count].begin());
                count += 1;
            }
            level -= 1;
            continue;
        }
        const Int table = order[level], next = at[level];
        at[level] += 1;
        if (next > first[table + 1]) {
            level -= 1;
            continue;
        }
        const Int item = next < first[table + 1] ? next : -1;
        chosen[table] = item;
        if (item < 0 || fits(use[item], used_at(level), limit)) {
            for (Int r = 0; r < resources; ++r) {
                used[level + 1][r] = used[level][r] + (item >= 0 ? use[item][r] : 0.0);
            }
            level += 1;
            if (level < tables) {
                at[level] = first[order[level]];
            }
        }
    }
    return -1;
}

}  // namespace emplace
