// The problem laid out flat: FlatProblem of solver/model/flat.py, which says what each array holds.
#pragma once

#include "view.hpp"

namespace emplace {

struct FlatProblem {
    FixedInts cover_first;
    FixedInts cover_device;
    FixedInts kind;
    FixedInts pool;
    FixedInts group_first;
    FixedInts group_target;
    View<const bool, 2> allowed;
    FixedInts candidate_first;
    FixedInts candidate;
    FixedInts option_first_unit;
    FixedInts option_group;
    FixedFloats option_price;
    View<const double, 3> unit_load;
    View<const double, 2> unit_ddr;
    FixedInts slot_first;
    FixedInts slot_table;

    template <typename Fields>
    static FlatProblem from(const Fields& given) {
        return {given["cover_first"],  given["cover_device"], given["kind"],         given["pool"],
                given["group_first"],  given["group_target"], given["allowed"],      given["candidate_first"],
                given["candidate"],    given["option_first_unit"], given["option_group"], given["option_price"],
                given["unit_load"],    given["unit_ddr"],     given["slot_first"],   given["slot_table"]};
    }

    // Devices that a target loads: none for -1, where a unit found no place.
    FixedInts covered(Int target) const {
        return target < 0 ? cover_device.part(0, 0) : cover_device.part(cover_first[target], cover_first[target + 1]);
    }

    // Those of them that the target is, whose memory a unit there takes.
    FixedInts holding(Int target) const {
        const FixedInts loaded = covered(target);
        return target >= 0 && target < kind.size() ? loaded.part(0, 1) : loaded;
    }

    // Targets that units of an option of this group may take.
    FixedInts targets(Int group) const { return group_target.part(group_first[group], group_first[group + 1]); }

    // Options that a table may change to.
    FixedInts candidates(Int table) const { return candidate.part(candidate_first[table], candidate_first[table + 1]); }

    Int units(Int option) const { return option_first_unit[option + 1] - option_first_unit[option]; }

    bool may_use(Int table, Int target) const { return allowed[table % allowed.size()][target]; }
};

}  // namespace emplace
