// What a person should know of a schedule that its text does not say: which point a system's name
// stands for, and which products are by tiles where a preset would have a library's kernel.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schedule/systems.h"

namespace stretto {

// Of one product; null or empty where there is nothing to know.
struct SaidOfProduct {
  std::string_view name;
  const System* system = nullptr;
  const NearestPoint* point = nullptr;
  std::string why_tiles = {};
};

std::string reason_of_names(const std::vector<SaidOfProduct>& products);

}  // namespace stretto
