// How the blocks of a pass share its tasks.
#pragma once

#include "tables/plan_tables.h"

namespace stretto::cuda {

// Lanes have parts of entries, some of which a run leaves empty, so that in some two parts are full
// and in others none. Where a pass does nothing but put rows in order, and its tasks' rows follow
// one another, they become as few tasks as can be, of each of which every block has a slice. A
// table of tasks that others find by their places is not for this.
void share_rows(MoverTable& table);

// Cuts the tasks of a pass into as many slices as give each of so many SMs its blocks at once, and
// into no more than there is work for. Blocks beyond those wait for the first ones to end, with
// their looks at tables before them. Routed rows are not cut (stretto/device/pass.h).
void cut_tasks(MoverTable& table, int sms);

}  // namespace stretto::cuda
