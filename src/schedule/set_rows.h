// What runs of a plan may have, for all products of an operator.
#pragma once

#include "stretto/schedule.h"

namespace stretto {

inline void set_rows(OperatorSchedule& schedule, RowCount rows) {
  for (Schedule& product : schedule.products) product.rows = rows;
}

}  // namespace stretto
