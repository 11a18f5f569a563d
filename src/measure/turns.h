// Who goes when in a round of measurements.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace stretto::runtime {

// 0 to count - 1 in an order that is another in every round. A GPU is slower behind one who heated
// it, so who always goes behind the same one would be measured with that one's heat. The same on
// all processes of a job, which measure together.
std::vector<size_t> turns_of_round(size_t count, int round);

// Lets `count` take their turns in at most so many rounds, until `goes_on()` behind one says no.
void take_turns(size_t count, int rounds, const std::function<void(size_t who)>& take,
                const std::function<bool()>& goes_on);

}  // namespace stretto::runtime
