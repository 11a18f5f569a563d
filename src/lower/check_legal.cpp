// check_legal: refuses what cannot be lowered, with all reasons at once.
#include <fmt/format.h>

#include "lower/lowering.h"
#include "stretto/error.h"

namespace stretto {

void check_legal(Draft& draft) {
  const std::vector<std::string> reasons = legal(draft.op, draft.schedule, draft.machine);
  if (!reasons.empty()) throw UsageError(fmt::format("{}", fmt::join(reasons, "; ")));
}

}  // namespace stretto
