// Which kernels a line of `stretto compile` asks for.
#pragma once

#include <string>
#include <vector>

#include "cli/options.h"
#include "stretto/segment.h"
#include "tables/kernel_set.h"

namespace stretto::cli {

class Progress;

// A schedule of the line that cannot serve an operator of it.
struct RefusedSchedule {
  std::string strategy;
  Operator op;
  std::vector<std::string> reasons;

  bool operator==(const RefusedSchedule&) const = default;
};
std::string to_string(const RefusedSchedule& refused);

struct KernelsToCompile {
  std::vector<cuda::KernelEntry> kernels;  // each once
  std::vector<RefusedSchedule> refused;
};

// The usual ones where the line has no operator. Throws UsageError, SystemError; where every
// schedule is refused the first's reasons.
KernelsToCompile kernels_to_compile(const Options& options, const std::string& arch,
                                    Progress& progress);

}  // namespace stretto::cli
