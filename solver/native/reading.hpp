// NumPy arrays as views, and named tuples of them as records. Nothing is copied, as arrays are changed in place: an array that is not
// what is asked for is refused.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "view.hpp"

namespace emplace {

namespace py = pybind11;

// A view of an array; `named` says which one it is, should it be refused.
template <typename T, int N, typename Named>
View<T, N> view_of(const py::handle& given, const Named& named) {
    using Element = std::remove_const_t<T>;
    if (!py::isinstance<py::array_t<Element, 0>>(given)) {
        throw py::type_error(named() + " must be an array of " + std::string(py::str(py::dtype::of<Element>())));
    }
    const auto array = py::reinterpret_borrow<py::array>(given);
    if (array.ndim() != N) {
        throw py::value_error(named() + " must have " + std::to_string(N) + " dimensions, not " + std::to_string(array.ndim()));
    }
    if ((array.flags() & py::array::c_style) == 0) {
        throw py::value_error(named() + " must be contiguous in C order");
    }
    if (!std::is_const_v<T> && !array.writeable()) {
        throw py::value_error(named() + " must be writable");
    }
    std::array<Int, N> shape{};
    std::copy(array.shape(), array.shape() + N, shape.begin());
    return {static_cast<T*>(const_cast<void*>(array.data())), shape};
}

// One field of a named tuple, on its way to whatever type the record has for it.
class Field {
public:
    Field(const py::handle& owner, const char* name) : owner_(owner), name_(name), value_(owner.attr(name)) {}

    template <typename T, int N>
    operator View<T, N>() const {
        return view_of<T, N>(value_, [this] { return std::string(py::str(py::type::handle_of(owner_).attr("__name__"))) + "." + name_; });
    }

    template <typename T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
    operator T() const {
        return py::cast<T>(value_);
    }

    template <typename Record, typename = decltype(Record::from(std::declval<const class Fields&>()))>
    operator Record() const;

private:
    py::handle owner_;
    const char* name_;
    py::object value_;
};

// The fields of a named tuple. They belong to it, so views of them last as long as it does.
class Fields {
public:
    explicit Fields(const py::handle& record) : record_(record) {}

    Field operator[](const char* name) const { return {record_, name}; }

private:
    py::handle record_;
};

template <typename Record, typename>
Field::operator Record() const {
    return Record::from(Fields(value_));
}

}  // namespace emplace

namespace pybind11::detail {

// Arguments of a bound function that are views or records.

template <typename T, int N>
struct type_caster<emplace::View<T, N>> {
    static constexpr auto name = const_name("numpy.ndarray");
    template <typename>
    using cast_op_type = const emplace::View<T, N>&;

    bool load(const handle& given, bool) {
        view_.emplace(emplace::view_of<T, N>(given, [] { return std::string("an argument"); }));
        return true;
    }
    operator const emplace::View<T, N>&() const { return *view_; }

private:
    std::optional<emplace::View<T, N>> view_;
};

template <typename Record>
struct type_caster<Record, std::void_t<decltype(Record::from(std::declval<const emplace::Fields&>()))>> {
    static constexpr auto name = const_name("tuple");
    template <typename>
    using cast_op_type = const Record&;

    bool load(const handle& given, bool) {
        record_.emplace(Record::from(emplace::Fields(given)));
        return true;
    }
    operator const Record&() const { return *record_; }

private:
    std::optional<Record> record_;
};

}  // namespace pybind11::detail
