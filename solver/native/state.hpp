// A placement with its loads, and the limits of these: the records of solver/local_search/state.py, which says what each array holds.
#pragma once

#include "view.hpp"

namespace emplace {

struct LoadLimits {
    View<double, 2> load;
    Floats weight;
    FixedFloats square_weight;
    FixedFloats ddr;
    Floats ddr_weight;
    FixedFloats memory_weight;

    template <typename Fields>
    static LoadLimits from(const Fields& given) {
        return {given["load"], given["weight"], given["square_weight"], given["ddr"], given["ddr_weight"], given["memory_weight"]};
    }
};

struct SearchState {
    Ints option;
    Ints target;
    View<double, 2> load;
    Floats cost;
    Floats ddr;
    Floats ddr_cost;
    Ints head;
    Ints next;
    Ints previous;
    Ints slots;
    Ints overloaded;
    View<std::uint64_t, 1> random;

    template <typename Fields>
    static SearchState from(const Fields& given) {
        return {given["option"], given["target"],   given["load"],  given["cost"],       given["ddr"],   given["ddr_cost"],
                given["head"],   given["next"], given["previous"], given["slots"], given["overloaded"], given["random"]};
    }

    Int devices() const { return cost.size(); }
    Int pools() const { return ddr.size(); }
    Int columns() const { return load.size(1); }
    bool is_device(Int of_target) const { return 0 <= of_target && of_target < devices(); }
};

// 31 random bits (xorshift64*): the same stream on every machine.
inline Int random_bits(const SearchState& state) {
    std::uint64_t x = state.random[0];
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    state.random[0] = x;
    return static_cast<Int>((x * UINT64_C(2685821657736338717)) >> 33);
}

// A random number from 0 to n - 1.
inline Int below(const SearchState& state, Int n) { return (random_bits(state) * n) >> 31; }

}  // namespace emplace
