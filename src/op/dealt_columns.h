// What is wrong with columns that are not dealt to all ranks, in words.
#pragma once

#include <string>

#include "stretto/held.h"

namespace stretto {

// The largest number of columns below `shares`, and the least above, that leave every rank some.
struct NearestDealt {
  int64_t below = 0;  // 0: there is none
  int64_t above = 0;
};
NearestDealt nearest_dealt(ColShards shares);

// "in blocks of 8, which leaves none for the last: take k = 8 or 12"; `name`: "k = ", or nothing.
std::string why_not_dealt(const ColShards& shares, const std::string& name);

}  // namespace stretto
