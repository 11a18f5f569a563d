// The tables of a rank whose lanes compute tiles in ranges of K, one behind the other.
#pragma once

#include <vector>

#include "launch/plan_fixture.h"
#include "tables/plan_tables.h"

namespace stretto::cuda {

// Before which blocks of K a task makes `count` of its waits.
inline std::vector<int> blocks_before(const GemmTable& table, const device::GemmTask& task,
                                      int first, int count) {
  std::vector<int> blocks;
  for (int w = first; w < first + count; ++w) {
    blocks.push_back(
        static_cast<int>(table.waits[task.first_wait + static_cast<size_t>(w)].before));
  }
  return blocks;
}

// Of rank 0.
struct Tables {
  explicit Tables(const Plan& plan)
      : programs(programs_of(plan)),
        signals(plan, programs, true),
        all(tables_for(plan, 0, programs[0], places_of(plan), signals)) {}
  const GemmTable& gemm() const { return all.gemms[0].table; }

  std::vector<RankProgram> programs;
  SignalLayout signals;
  RankTables all;
};

}  // namespace stretto::cuda
