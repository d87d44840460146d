// The search for the pattern worth most where many resources are scarce: prices that suit all items say little of what fits beside a few,
// so they are found anew for every part of the search.
#pragma once

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "knapsack.hpp"

namespace emplace {

// Rounds of better prices for a part; and after how many in a row that bring nothing their steps are halved.
constexpr int PRICE_ROUNDS = 20, IDLE_ROUNDS = 3;

// Patterns worth more than all before, each in a row: the latest takes the place of the earliest once there is no other.
struct PatternsMet {
    View<Int, 2> chosen;
    Ints counts;  // how many were met, the steps taken, whether they ran out

    template <typename Fields>
    static PatternsMet from(const Fields& given) {
        return {given["chosen"], given["counts"]};
    }
};

class RepricingSearch {
public:
    RepricingSearch(const PricedItems& items, const PatternsMet& met, double threshold, Int most_steps, Int enough_steps)
        : items_(items), met_(met), top_(threshold), most_steps_(most_steps), enough_steps_(enough_steps), table_(items.value.size()) {
        for (Int table = 0; table < items.first.size() - 1; ++table) {
            std::fill(table_.begin() + items.first[table], table_.begin() + items.first[table + 1], table);
        }
    }

    // The most that a pattern is worth, or the threshold where none is worth more.
    double run(const FixedFloats& price, const FixedFloats& held) {
        Part all{std::vector<double>(price.size(), 0.0), {held.begin(), held.end()}, {price.begin(), price.end()}, 0.0, {}, {}};
        for (Int item = 0; item < items_.value.size(); ++item) {
            all.open.push_back(item);
        }
        search(all);
        return top_;
    }

private:
    // Patterns with some items taken, and others that may be.
    struct Part {
        std::vector<double> used, spent, price;
        double worth;
        std::vector<Int> open, taken;
    };

    // What the open items of a part are worth at prices of their own: `score` of each, `best` of all of its table.
    struct Priced {
        double bound;
        std::vector<double> score, best;
    };

    void search(Part& part) {
        keep_if_worth_more(part);
        const auto too_large = [&](Int item) { return items_.value[item] <= 0.0 || !fits(part, item); };
        part.open.erase(std::remove_if(part.open.begin(), part.open.end(), too_large), part.open.end());
        while (!part.open.empty() && !ran_out()) {
            const Priced priced = reprice(part);
            if (priced.bound <= top_) {
                return;
            }
            for (const Int item : taken_off(part, priced)) {
                Part with = with_item(part, item);
                search(with);
            }
        }
    }

    void keep_if_worth_more(const Part& part) {
        if (part.worth > top_) {
            top_ = part.worth;
            const Ints row = met_.chosen[met_.counts[0]++ % met_.chosen.size()];
            std::fill(row.begin(), row.end(), -1);
            for (const Int item : part.taken) {
                row[table_[item]] = item;
            }
        }
    }

    bool ran_out() {
        const Int steps = met_.counts[1];
        met_.counts[2] = steps >= most_steps_ || (steps >= enough_steps_ && met_.counts[0] > 0);
        return met_.counts[2] != 0;
    }

    bool fits(const Part& part, Int item) const {
        for (Int r = 0; r < items_.use.size(1); ++r) {
            if (part.used[r] + items_.use[item][r] > items_.capacity) {
                return false;
            }
        }
        double total = 0.0;
        for (Int k = 0; k < items_.time.size(1); ++k) {
            total += std::max(items_.lower[k], part.spent[k] + items_.time[item][k]);
        }
        return total <= items_.limit;
    }

    // The best of some rounds of the subgradient method, whose steps aim at what would end the search here; its prices stay with the part.
    Priced reprice(Part& part) {
        std::vector<double> price = part.price, slack(price.size());
        Priced best{std::numeric_limits<double>::infinity(), {}, {}};
        double share = 1.0;
        for (int round = 0, idle = 0; round < PRICE_ROUNDS; ++round) {
            Priced here = priced(part, price, slack);
            const double above = here.bound - top_;
            if (here.bound < best.bound) {
                best = std::move(here);
                part.price = price;
                idle = 0;
            } else if (++idle == IDLE_ROUNDS) {
                share /= 2.0;
                idle = 0;
            }
            double norm = 0.0;
            for (std::size_t r = 0; r < price.size(); ++r) {
                norm += price[r] > 0.0 || slack[r] < 0.0 ? slack[r] * slack[r] : 0.0;
            }
            if (best.bound <= top_ || norm == 0.0) {
                break;
            }
            for (std::size_t r = 0; r < price.size(); ++r) {
                price[r] = std::max(0.0, price[r] - share * above / norm * slack[r]);
            }
        }
        return best;
    }

    // The Lagrangian bound of a part, and what it leaves of each resource.
    Priced priced(const Part& part, const std::vector<double>& price, std::vector<double>& slack) {
        const std::size_t items = part.open.size();
        Priced found{part.worth, std::vector<double>(items), std::vector<double>(items)};
        for (std::size_t r = 0; r < price.size(); ++r) {
            slack[r] = items_.capacity - part.used[r];
            found.bound += price[r] * slack[r];
        }
        for (std::size_t first = 0, end = 0; first < items; first = end) {
            double most = 0.0;
            Int chosen = -1;
            for (end = first; end < items && table_[part.open[end]] == table_[part.open[first]]; ++end) {
                found.score[end] = score(part.open[end], price);
                if (found.score[end] > most) {
                    most = found.score[end];
                    chosen = part.open[end];
                }
            }
            std::fill(found.best.begin() + first, found.best.begin() + end, most);
            found.bound += most;
            for (std::size_t r = 0; chosen >= 0 && r < price.size(); ++r) {
                slack[r] -= items_.use[chosen][r];
            }
        }
        met_.counts[1] += static_cast<Int>(items) + 1;
        return found;
    }

    double score(Int item, const std::vector<double>& price) const {
        const FixedFloats use = items_.use[item];
        double worth = items_.value[item];
        for (Int r = 0; r < use.size(); ++r) {
            worth -= price[r] * use[r];
        }
        return worth;
    }

    // The items of the table that is worth most, the best first, which are open no more; nor is any that can't be in a pattern worth enough.
    std::vector<Int> taken_off(Part& part, const Priced& priced) const {
        const std::size_t items = part.open.size();
        const auto worth_while = [&](std::size_t i) { return priced.bound - priced.best[i] + priced.score[i] > top_; };
        Int table = -1;
        double most = -1.0;
        for (std::size_t i = 0; i < items; ++i) {
            if (worth_while(i) && priced.best[i] > most) {
                most = priced.best[i];
                table = table_[part.open[i]];
            }
        }
        std::vector<std::pair<double, Int>> off;
        std::vector<Int> open, ordered;
        for (std::size_t i = 0; i < items; ++i) {
            if (worth_while(i) && table_[part.open[i]] == table) {
                off.emplace_back(-priced.score[i], part.open[i]);
            } else if (worth_while(i)) {
                open.push_back(part.open[i]);
            }
        }
        part.open = std::move(open);
        std::sort(off.begin(), off.end());
        for (const auto& [score, item] : off) {
            ordered.push_back(item);
        }
        return ordered;
    }

    Part with_item(const Part& part, Int item) const {
        Part with = part;
        for (Int r = 0; r < items_.use.size(1); ++r) {
            with.used[r] += items_.use[item][r];
        }
        for (Int k = 0; k < items_.time.size(1); ++k) {
            with.spent[k] += items_.time[item][k];
        }
        with.worth += items_.value[item];
        with.taken.push_back(item);
        return with;
    }

    const PricedItems& items_;
    const PatternsMet& met_;
    double top_;
    const Int most_steps_, enough_steps_;
    std::vector<Int> table_;
};

// The most that a pattern above `threshold` is worth, from prices of resources that are near the best; `threshold` where there is none. Of
// all patterns, or of those seen in `most_steps`; in `enough_steps` once one was met.
inline double search_repricing(const PricedItems& items, const FixedFloats& price, const FixedFloats& held, const PatternsMet& met,
                               double threshold, Int most_steps, Int enough_steps) {
    return RepricingSearch(items, met, threshold, most_steps, enough_steps).run(price, held);
}

}  // namespace emplace
