// What a run is made of, with a call's tensors in the place of stand-ins (launch/call_places.h).
#pragma once

#include <vector>

#include "launch/call_places.h"
#include "stretto/plan.h"
#include "tables/collectives.h"
#include "tables/low_latency.h"
#include "tables/plan_tables.h"
#include "tables/transfers.h"

namespace stretto::cuda {

// By index in caller_tensors(): whether its rows must lie without gaps, since they are moved as one
// piece. Others are only multiplied, or copied row by row.
std::vector<bool> tensors_without_gaps(const Plan& plan);

// By buffer: a collective moves its rows at the distance that all ranks have, and the last rank has
// fewer columns of it.
std::vector<bool> buffers_of_uneven_collectives(const Plan& plan);

// Ends with the rows that there are, but has one at least: no task works on it then.
Matrix at_call(Matrix matrix, CallPlaces places);
// Of a caller's tensor only the rows that there are; none of them: `rows` is 0.
Transfer at_call(Transfer transfer, CallPlaces places);
NcclCall at_call(NcclCall call, CallPlaces places);
LowLatencyCall at_call(LowLatencyCall call, CallPlaces places);

}  // namespace stretto::cuda
