// Bugs that real systems had, each beside the same kernel without it.
#pragma once

#include <functional>
#include <vector>

#include "stretto/device/lang/shmem.h"
#include "stretto/fibre/explore.h"

namespace stretto::fibre {

struct Planted {
  const char* name;
  const char* origin;              // where it was seen
  std::vector<FindingKind> kinds;  // any of them names it
  Shape shape;
  std::function<void(World&, bool bug)> run;
};

}  // namespace stretto::fibre
