// How limits move while a search goes on: the target between the stages, and the weight of memory beside time.
#pragma once

#include <algorithm>

#include "loads.hpp"

namespace emplace {

// Factors on the weight of memory at a look, while some is exceeded and while none is.
constexpr double DEARER = 1.05, CHEAPER = 0.97;

// Move a share of the target from the stage that would save the least overload by being longer to the one that would save the most.
//
// At the best split of the target they save the same. Among stages that no device exceeds, the one with the most room gives.
inline void balance(const LoadLimits& limits, const SearchState& state, double step) {
    Int giver = -1, taker = -1;
    double least = 0.0, most = -1.0, room = 0.0, total = 0.0;
    for (Int stage = 0; stage < state.columns() - 1; ++stage) {
        double saved = 0.0, longest = 0.0;
        for (Int device = 0; device < state.devices(); ++device) {
            const double load = state.load[device][stage];
            longest = std::max(longest, load);
            saved += saving(limits, stage, load - limits.load[device][stage]);
        }
        const double left = limits.load[0][stage] - longest;
        total += limits.load[0][stage];
        if (giver < 0 || saved < least || (saved == least && left > room)) {
            giver = stage;
            least = saved;
            room = left;
        }
        if (saved > most) {
            taker = stage;
            most = saved;
        }
    }
    if (most <= least) {
        return;
    }
    step *= total;
    if (least == 0.0) {
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
