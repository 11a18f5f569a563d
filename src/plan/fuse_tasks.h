// What fuse_tasks() does, in less time where a plan's ranks are known to be alike.
#pragma once

#include "stretto/plan.h"

namespace stretto {

// The plan has no words yet. Its ranks have the same lanes of the same instructions, and those of
// each rank touch every memory, as seen from it, as rank 0's do (sync/alike_ranks.h,
// sync/alike_touches.h): so who else reads what rank 0 keeps in registers is looked for on rank 0
// alone.
void fuse_tasks_of_alike_ranks(Plan& plan);

}  // namespace stretto
