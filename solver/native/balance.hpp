// How limits move while a search goes on: the target between the stages, and the weight of memory beside time.
#pragma once

#include <algorithm>

#include "state.hpp"

namespace emplace {

// Factors on the weight of memory at a look, while some is exceeded and while none is.
constexpr double DEARER = 1.05, CHEAPER = 0.97;

// Move a share of the target from the stage where the fewest devices exceed their limit to the one where most do.
//
// A longer stage relieves every device that exceeds it, so at the best split of the target these numbers are equal. Among stages that no
// device exceeds, the one with the most room gives.
inline void balance(const LoadLimits& limits, const SearchState& state, double step) {
    Int giver = -1, taker = -1, fewest = 0, most = -1;
    double room = 0.0, total = 0.0;
    for (Int stage = 0; stage < state.columns() - 1; ++stage) {
        Int over = 0;
        double longest = 0.0;
        for (Int device = 0; device < state.devices(); ++device) {
            const double load = state.load[device][stage];
            longest = std::max(longest, load);
            over += load > limits.load[device][stage] ? 1 : 0;
        }
        const double left = limits.load[0][stage] - longest;
        total += limits.load[0][stage];
        if (giver < 0 || over < fewest || (over == fewest && left > room)) {
            giver = stage;
            fewest = over;
            room = left;
        }
        if (over > most) {
            taker = stage;
            most = over;
        }
    }
    if (most <= fewest) {
        return;
    }
    step *= total;
    if (fewest == 0) {
        step = std::min(step, room);
    }
    for (Int device = 0; device < state.devices(); ++device) {
        limits.load[device][giver] -= step;
        limits.load[device][taker] += step;
    }
}

inline double weighed(double weight, bool exceeded, double least, double most) {
    return std::min(std::max(weight * (exceeded ? DEARER : CHEAPER), least), most);
}

// Exceeding memory costs more the longer it lasts, and less again while none is exceeded: a plan that is a little late is a plan, one that
// does not fit is none.
inline void weigh_memory(const LoadLimits& limits, const SearchState& state) {
    const Int column = state.columns() - 1;
    const FixedFloats& range = limits.memory_weight;
    bool exceeded = false;
    for (Int device = 0; device < state.devices(); ++device) {
        exceeded = exceeded || state.load[device][column] > limits.load[device][column];
    }
    limits.weight[column] = weighed(limits.weight[column], exceeded, range[0], range[1]);
    for (Int pool = 0; pool < state.pools(); ++pool) {
        limits.ddr_weight[pool] = weighed(limits.ddr_weight[pool], state.ddr[pool] > limits.ddr[pool], range[2], range[3]);
    }
}

}  // namespace emplace
