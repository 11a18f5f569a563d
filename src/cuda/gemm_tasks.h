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
        map_lists_(static_cast<size_t>(basis.sets)),
        source_lists_(static_cast<size_t>(basis.sets)) {}

  // A tile whose rows of A lie in several regions is computed once for each of them. One with a sum
  // goes where the sum goes.
  void add(const Instr& gemm, const Instr* sum, std::vector<device::GemmTask>& tasks);
  // What the task of the tile adds to it.
  void add_sources(const Instr& reduce, const TileSum& sum, device::GemmTask& task);
  // Once all tasks are there.
  void finish();

 private:
  // A map of the first `columns` columns of a buffer; of `box_rows` rows at once when it stores.
  uint16_t map_of(MapSpec::Use use, const Region& region, int32_t columns, int box_rows = 0);
  // `part` is the rows of the tile that its task computes.
  device::GemmDestination destination(const Placed& placed, const RowPart& part);

  const TableBasis& basis_;
  const device::GemmConfig& config_;
  GemmLaunch& launch_;
  std::map<std::tuple<MapSpec::Use, uint16_t, uint16_t, int32_t, int>, size_t> map_ids_;
  std::vector<std::vector<MapSpec>> map_lists_;      // by set
  std::vector<std::vector<uint64_t>> source_lists_;  // by set
};

}  // namespace stretto::cuda
