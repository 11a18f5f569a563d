// What `stretto explore` runs by name: the built-in kernels of the device language, and bugs that
// real systems had, each beside the same kernel without it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "stretto/fibre/explore.h"

namespace stretto::fibre {

enum class EntryKind : uint8_t { kKernel, kBug, kTwin };

struct CatalogEntry {
  std::string name;  // of a twin: the bug's, with ":fixed" behind it
  std::string about;
  EntryKind kind = EntryKind::kKernel;
  Shape shape;                     // that shows it well
  std::vector<FindingKind> kinds;  // of a bug: any of them names it
  Scenario scenario;
};

std::vector<CatalogEntry> catalog();

}  // namespace stretto::fibre
