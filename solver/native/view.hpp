// A view of an array whose rows lie one after the other in memory. Whoever makes it keeps the memory alive.
#pragma once

#include <array>
#include <cassert>
#include <cstdint>

namespace emplace {

using Int = std::int64_t;

template <typename T, int N>
class View {
public:
    View(T* data, const std::array<Int, N>& shape) : data_(data), shape_(shape) {}

    Int size(int axis = 0) const { return shape_[axis]; }

    // An element of a single row; else what is left with the first index given. Bounds are checked unless NDEBUG is defined.
    decltype(auto) operator[](Int index) const {
        assert(0 <= index && index < shape_[0]);
        if constexpr (N == 1) {
            return (data_[index]);
        } else {
            std::array<Int, N - 1> rest{};
            Int stride = 1;
            for (int axis = 1; axis < N; ++axis) {
                rest[axis - 1] = shape_[axis];
                stride *= shape_[axis];
            }
            return View<T, N - 1>(data_ + index * stride, rest);
        }
    }

    // Elements first .. end - 1.
    View part(Int first, Int end) const {
        static_assert(N == 1);
        assert(0 <= first && first <= end && end <= shape_[0]);
        return View(data_ + first, {end - first});
    }

    T* begin() const {
        static_assert(N == 1);
        return data_;
    }
    T* end() const { return begin() + shape_[0]; }

private:
    T* data_;
    std::array<Int, N> shape_;
};

using Ints = View<Int, 1>;
using Floats = View<double, 1>;
using FixedInts = View<const Int, 1>;
using FixedFloats = View<const double, 1>;

}  // namespace emplace
