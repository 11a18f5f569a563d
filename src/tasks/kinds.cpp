#include "tasks/kinds.h"

namespace stretto {

#define STRETTO_ROW(name, text, meaning) &tasks::name,
const TaskKind* const kTaskKinds[kNumTaskKinds] = {STRETTO_TASK_KINDS(STRETTO_ROW)};
#undef STRETTO_ROW

}  // namespace stretto
