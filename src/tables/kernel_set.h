// The kernels that plans need, to be compiled ahead of time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "stretto/plan.h"

namespace stretto::cuda {

struct KernelEntry {
  std::string name;        // for people
  std::string source;      // empty where `missing` says why there is none
  std::string missing;     // why the architecture has no such kernel
  bool is_graphs = false;  // a user's: what is wrong with it is its author's to mend
};

// Which fills and compares tensors: benchmarks and tests need it, runs do not.
inline constexpr std::string_view kTestDataKernel = "test data";

// The architectures that kernels are made for; the first is the one all of them exist for.
const std::vector<std::string>& known_archs();

// Those that running the plan takes, the test data's among them; with `serves`, running it as a
// serving one (serve.h). Throws UsageError where no kernel suits its tiles.
std::vector<KernelEntry> kernels_of(const Plan& plan, const std::string& arch, bool serves = false);

}  // namespace stretto::cuda
