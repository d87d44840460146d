// What loads are multiples of.
#pragma once

#include <cmath>

#include "view.hpp"

namespace emplace {

// Values are rounded to one in so many of their mean: what they add up from differs by so little in the last digits.
constexpr double ROUNDED = 1e9;

// The largest number that all values are multiples of, as a share of their mean; 0 where that is less than `least`. What is up to `finest`
// is rounding.
inline double common_divisor(const FixedFloats& values, double mean, double least, double finest) {
    double divisor = 0.0;
    for (const double value : values) {
        double rest = std::nearbyint(value / mean * ROUNDED) / ROUNDED;
        while (rest > finest) {
            const double larger = divisor;
            divisor = rest;
            rest = larger > 0.0 ? std::fmod(larger, rest) : 0.0;
            rest = rest > divisor - finest ? 0.0 : rest;
        }
        if (value > 0.0 && divisor < least) {
            return 0.0;
        }
    }
    return divisor;
}

}  // namespace emplace
