// The tiles of one launch of the GEMM kernel as its tasks.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "cuda/gemm_choice.h"
#include "cuda/plan_tables.h"
#include "cuda/table_basis.h"

namespace stretto::cuda {

class GemmTasks {
 public:
  GemmTasks(const TableBasis& basis, const device::GemmConfig& config, GemmLaunch& launch)
      : basis_(basis),
        config_(config),
        launch_(launch),
        map_lists_(static_cast<size_t>(basis.sets)) {}

  // Of the gemm at `at` of plan.lanes[lane], and of those before it whose sums it goes on adding
  // to. A tile whose rows of A lie in several regions is computed once for each of them. One with a
  // sum goes where the sum goes.
  void add(uint32_t lane, uint32_t at, std::vector<device::GemmTask>& tasks);
  // What the task of the tile adds to it.
  void add_sources(const Instr& reduce, const TileSum& sum, device::GemmTask& task);
  // Once all tasks are there.
  void finish();

 private:
  device::GemmSplit split_of(uint32_t lane, uint32_t at) const;
  // A map of the first `columns` columns of a buffer; of `box_rows` rows at once when it stores.
  uint16_t map_of(MapSpec::Use use, const Region& region, int32_t columns, int box_rows = 0);
  // `part` is the rows of the tile that its task computes.
  device::GemmDestination destination(const Placed& placed, const RowPart& part);

  const TableBasis& basis_;
  const device::GemmConfig& config_;
  GemmLaunch& launch_;
  std::map<std::tuple<MapSpec::Use, uint16_t, uint16_t, int32_t, int>, size_t> map_ids_;
  std::vector<std::vector<MapSpec>> map_lists_;  // by set
};

}  // namespace stretto::cuda
