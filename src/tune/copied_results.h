// Results that ranks write to each other, where the caller's memory is its own: a copy more.
#pragma once

#include "stretto/tune.h"

namespace stretto {

// Time in which a result of the product is copied from memory between ranks to the caller's tensor;
// 0 where only its own rank writes it.
double copied_result_us(const Schedule& schedule, const Segment& op, const Machine& machine);

// `chosen` of fixed rows; or, where its results are copied, what is faster with the copy, by
// measurement or as expected (weighed_schedules()).
AutoSchedules with_copied_results(AutoSchedules chosen, const Segment& op, const Machine& machine,
                                  const Tuning& tuning);

}  // namespace stretto
