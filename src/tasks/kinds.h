// The rows of all kinds; each has a file of its name.
#pragma once

#include "stretto/task_kind.h"

namespace stretto::tasks {

#define STRETTO_ROW(name, text, meaning) extern const TaskKind name;
STRETTO_TASK_KINDS(STRETTO_ROW)
#undef STRETTO_ROW

}  // namespace stretto::tasks
