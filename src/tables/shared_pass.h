// Passes that put rows in order, whose blocks share all rows.
#pragma once

#include "tables/plan_tables.h"

namespace stretto::cuda {

// Lanes have parts of entries, some of which a run leaves empty, so that in some two parts are full
// and in others none. Where a pass does nothing but put rows in order, and its tasks' rows follow
// one another, they become as few tasks as can be, of each of which every block has a slice. A
// table of tasks that others find by their places is not for this.
void share_rows(MoverTable& table);

}  // namespace stretto::cuda
