// Executes a draft's program one instruction after the other, on exact integers, and says whether
// every output element is right and was written once. Knows nothing of signals or lanes' timing:
// it proves the tasks themselves.
#pragma once

#include <string>
#include <vector>

#include "stretto/lower.h"

namespace stretto {

struct SequentialResult {
  std::vector<std::string> faults;  // empty: all is well; stops after a few
};

SequentialResult run_sequentially(const Draft& draft);

}  // namespace stretto
