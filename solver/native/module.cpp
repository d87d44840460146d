// What Python calls. Each function runs without the interpreter lock: lanes of a search run beside each other.

#include "annealing.hpp"
#include "construct.hpp"
#include "granularity.hpp"
#include "knapsack_bounds.hpp"
#include "packing.hpp"
#include "pair_exchange.hpp"
#include "patterns.hpp"
#include "reading.hpp"
#include "repricing.hpp"

namespace {

template <typename Function>
void bind(pybind11::module_& module, const char* name, Function* function) {
    module.def(name, function, pybind11::call_guard<pybind11::gil_scoped_release>());
}

}  // namespace

PYBIND11_MODULE(_native, module) {
    bind(module, "anneal", emplace::anneal);
    bind(module, "common_divisor", emplace::common_divisor);
    bind(module, "enumerate_patterns", emplace::enumerate_patterns);
    bind(module, "fill_grid", emplace::fill_grid);
    bind(module, "greedy", emplace::greedy);
    bind(module, "place_all", emplace::place_all);
    bind(module, "recount", emplace::recount);
    bind(module, "resplit_pairs", emplace::resplit_pairs);
    bind(module, "search_patterns", emplace::search_patterns);
    bind(module, "search_repricing", emplace::search_repricing);
    bind(module, "subgradient", emplace::subgradient);
}
