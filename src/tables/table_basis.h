// What the tables of one rank are made from.
#pragma once

#include "launch/buffer_places.h"
#include "launch/signal_layout.h"
#include "launch/tile_sums.h"
#include "stretto/device/run_rows.h"
#include "stretto/task_rows.h"

namespace stretto::cuda {

struct TableBasis {
  const Plan& plan;
  int rank;
  const BufferPlaces& places;
  const SignalLayout& signals;
  const TileSums& sums;
  bool serves;
  int sets;
  TaskRowFinder rows_of{plan};

  // Whether some tasks of the plan go by tables of a run.
  bool routes() const { return plan.has_tables(); }
  DevicePtr address(const Region& region, int set) const {
    return address_of(places, region.rank, region.buffer, set);
  }
  // Where runs may have fewer rows: which ones a task works on.
  device::TaskRows task_rows(const Instr& instr) const;
  // The same for movers. What a library multiplies has all owners' rows together.
  device::TaskRows mover_rows(const Instr& instr) const;
};

}  // namespace stretto::cuda
