// The search for the pattern worth most where many resources are scarce: prices that suit all items say little of what fits beside a few,
// so they are found anew for every part of the search.
#pragma once

#include <algorithm>
#include <deque>
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

// What items are worth at some prices of resources.
struct Priced {
    double bound;  // of a pattern, at most
    std::vector<double> score, most;  // of each item; of the best of each table
};

// Items of a knapsack, table by table, laid out so that a price is applied to all of them in a row.
class OpenItems {
public:
    void gather(const PricedItems& items, const std::vector<Int>& table, const std::vector<Int>& open) {
        number_ = open.size();
        value_.resize(number_);
        row_.resize(number_);
        use_.resize(number_ * items.use.size(1));
        end_.clear();
        for (std::size_t i = 0; i < number_; ++i) {
            const double* use = items.use[open[i]].begin();
            value_[i] = items.value[open[i]];
            row_[i] = use;
            for (Int r = 0; r < items.use.size(1); ++r) {
                use_[r * number_ + i] = use[r];
            }
            if (i + 1 == number_ || table[open[i]] != table[open[i + 1]]) {
                end_.push_back(i + 1);
            }
        }
    }

    // [tables] one past the last item of each.
    const std::vector<std::size_t>& ends() const { return end_; }

    // Adds to the bound what the best item of each table is worth, and takes what it uses off the slack of each resource.
    void price(const std::vector<double>& price, std::vector<double>& slack, Priced& found) const {
        found.score = value_;
        found.most.resize(end_.size());
        for (std::size_t r = 0; r < price.size(); ++r) {
            if (price[r] > 0.0) {
                subtract(price[r], use_.data() + r * number_, found.score.data(), number_);
            }
        }
        double bound = found.bound;
        for (std::size_t t = 0, i = 0; t < end_.size(); ++t) {
            double most = 0.0;
            std::size_t best = number_;
            for (; i < end_[t]; ++i) {
                best = found.score[i] > most ? i : best;
                most = std::max(most, found.score[i]);
            }
            found.most[t] = most;
            bound += most;
            if (best < number_) {
                subtract(1.0, row_[best], slack.data(), slack.size());
            }
        }
        found.bound = bound;
    }

private:
    static void subtract(double price, const double* __restrict use, double* __restrict from, std::size_t number) {
        for (std::size_t i = 0; i < number; ++i) {
            from[i] -= price * use[i];
        }
    }

    std::size_t number_ = 0;
    std::vector<double> value_, use_;
    std::vector<const double*> row_;
    std::vector<std::size_t> end_;
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
        Part& all = part(0);
        all = {std::vector<double>(price.size(), 0.0), {held.begin(), held.end()}, {price.begin(), price.end()}, 0.0, {}, {}, {}};
        for (Int item = 0; item < items_.value.size(); ++item) {
            all.open.push_back(item);
        }
        search(0);
        return top_;
    }

private:
    // Patterns with some items taken, and others that may be.
    struct Part {
        std::vector<double> used, spent, price;
        double worth;
        std::vector<Int> open, taken;
        std::vector<std::pair<double, Int>> next;  // the items of one table that are tried now, the best first, which are open no more
    };

    // The part that is searched at a depth: memory is used again.
    Part& part(std::size_t depth) {
        while (parts_.size() <= depth) {
            parts_.emplace_back();
        }
        return parts_[depth];
    }

    void search(std::size_t depth) {
        Part& here = part(depth);
        keep_if_worth_more(here);
        const auto too_large = [&](Int item) { return items_.value[item] <= 0.0 || !fits(here, item); };
        here.open.erase(std::remove_if(here.open.begin(), here.open.end(), too_large), here.open.end());
        while (!here.open.empty() && !ran_out()) {
            reprice(here);
            if (best_.bound <= top_) {
                return;
            }
            take_off(here);
            for (const auto& [score, item] : here.next) {
                take(here, item, part(depth + 1));
                search(depth + 1);
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
        const double *use = items_.use[item].begin(), *time = items_.time[item].begin();
        for (std::size_t r = 0; r < part.used.size(); ++r) {
            if (part.used[r] + use[r] > items_.capacity) {
                return false;
            }
        }
        double total = 0.0;
        for (std::size_t k = 0; k < part.spent.size(); ++k) {
            total += std::max(items_.lower[k], part.spent[k] + time[k]);
        }
        return total <= items_.limit;
    }

    // Into `best_` the best of some rounds of the subgradient method, whose steps aim at what would end the search here; its prices stay with
    // the part.
    void reprice(Part& part) {
        open_.gather(items_, table_, part.open);
        price_ = part.price;
        slack_.resize(price_.size());
        best_.bound = std::numeric_limits<double>::infinity();
        double share = 1.0;
        for (int round = 0, idle = 0; round < PRICE_ROUNDS; ++round) {
            price(part);
            const double above = here_.bound - top_;
            if (here_.bound < best_.bound) {
                std::swap(best_, here_);
                part.price = price_;
                idle = 0;
            } else if (++idle == IDLE_ROUNDS) {
                share /= 2.0;
                idle = 0;
            }
            double norm = 0.0;
            for (std::size_t r = 0; r < price_.size(); ++r) {
                norm += price_[r] > 0.0 || slack_[r] < 0.0 ? slack_[r] * slack_[r] : 0.0;
            }
            if (best_.bound <= top_ || norm == 0.0) {
                break;
            }
            for (std::size_t r = 0; r < price_.size(); ++r) {
                price_[r] = std::max(0.0, price_[r] - share * above / norm * slack_[r]);
            }
        }
    }

    // The Lagrangian bound of a part into `here_`, and into `slack_` what it leaves of each resource.
    void price(const Part& part) {
        double bound = part.worth;
        for (std::size_t r = 0; r < price_.size(); ++r) {
            slack_[r] = items_.capacity - part.used[r];
            bound += price_[r] * slack_[r];
        }
        here_.bound = bound;
        open_.price(price_, slack_, here_);
        met_.counts[1] += static_cast<Int>(part.open.size()) + 1;
    }

    // Takes the items of the table that is worth most off the open ones, and drops those that can't be in a pattern worth enough.
    void take_off(Part& part) const {
        const std::vector<std::size_t>& ends = open_.ends();
        const auto worth_while = [&](std::size_t i, std::size_t t) { return best_.bound - best_.most[t] + best_.score[i] > top_; };
        std::size_t chosen = ends.size();
        double most = -1.0;
        for (std::size_t t = 0, i = 0; t < ends.size(); ++t) {
            for (; i < ends[t]; ++i) {
                if (worth_while(i, t) && best_.most[t] > most) {
                    most = best_.most[t];
                    chosen = t;
                }
            }
        }
        part.next.clear();
        std::size_t left = 0;
        for (std::size_t t = 0, i = 0; t < ends.size(); ++t) {
            for (; i < ends[t]; ++i) {
                if (worth_while(i, t) && t == chosen) {
                    part.next.emplace_back(-best_.score[i], part.open[i]);
                } else if (worth_while(i, t)) {
                    part.open[left++] = part.open[i];
                }
            }
        }
        part.open.resize(left);
        std::sort(part.next.begin(), part.next.end());
    }

    void take(const Part& part, Int item, Part& with) const {
        with.used = part.used;
        with.spent = part.spent;
        with.price = part.price;
        with.open = part.open;
        with.taken = part.taken;
        for (Int r = 0; r < items_.use.size(1); ++r) {
            with.used[r] += items_.use[item][r];
        }
        for (Int k = 0; k < items_.time.size(1); ++k) {
            with.spent[k] += items_.time[item][k];
        }
        with.worth = part.worth + items_.value[item];
        with.taken.push_back(item);
    }

    const PricedItems& items_;
    const PatternsMet& met_;
    double top_;
    const Int most_steps_, enough_steps_;
    std::vector<Int> table_;
    std::deque<Part> parts_;
    OpenItems open_;
    Priced here_, best_;
    std::vector<double> price_, slack_;
};

// The most that a pattern above `threshold` is worth, from prices of resources that are near the best; `threshold` where there is none. Of
// all patterns, or of those seen in `most_steps`; in `enough_steps` once one was met.
inline double search_repricing(const PricedItems& items, const FixedFloats& price, const FixedFloats& held, const PatternsMet& met,
                               double threshold, Int most_steps, Int enough_steps) {
    return RepricingSearch(items, met, threshold, most_steps, enough_steps).run(price, held);
}

}  // namespace emplace
