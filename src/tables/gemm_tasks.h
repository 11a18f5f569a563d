// The tiles of one launch of the GEMM kernel as its tasks.
#pragma once

#include <vector>

#include "launch/choice_rows.h"
#include "launch/gemm_choice.h"
#include "tables/map_list.h"
#include "tables/plan_tables.h"
#include "tables/table_basis.h"

namespace stretto::cuda {

// What follows the product of a gemm in registers, in its own lane.
struct FollowedBy {
  uint32_t other = 0;           // position of swiglu's second gemm, whose A is the first one's
  TileSum other_sum{};          // of that
  const Region* bias[2] = {};   // a row of each product's columns; null: none
  const Instr* last = nullptr;  // what follows last: its result is all that is stored
};

class GemmTasks {
 public:
  GemmTasks(const TableBasis& basis, GemmLaunch& launch)
      : basis_(basis),
        config_(launch.config),
        launch_(launch),
        maps_(basis),
        choices_(basis.plan) {}

  // Of the gemm at `at` of plan.lanes[lane], and of those before it whose sums it goes on adding
  // to. A tile whose rows of A lie in several regions is computed once for each of them. One to
  // which `sum` is added before it is stored goes where the sum goes, and one that is followed
  // where the last that follows it goes.
  void add(uint32_t lane, uint32_t at, const TileSum& sum, std::vector<device::GemmTask>& tasks,
           const FollowedBy& followed = {});
  // Of the product at `at`, whose rows choose their matrices: a task for each of its entries.
  void add_entries(uint32_t lane, uint32_t at, std::vector<device::GemmTask>& tasks,
                   const FollowedBy& followed);
  // The task behind that of the tile of the gemm at `at`, where the sum is of the rank's part of
  // it.
  void add_part(uint32_t lane, uint32_t at, const TileSum& sum,
                std::vector<device::GemmTask>& tasks);
  // What the task of the tile, or of the rank's part of it, adds to it.
  void add_sources(const Instr& reduce, const TileSum& sum, device::GemmTask& task);
  // Once all tasks are there.
  void finish() { launch_.maps = maps_.all(); }

 private:
  // Of the task of a tile whose K begins with the gemm `first` and ends with `last`.
  device::GemmSource source_of(const Instr& first, const Instr& last, const TileSum& sum);
  device::GemmSplit split_of(const Lane& lane, uint32_t at, const TileSum& sum) const;
  // `stored`: the tile that the task stores, of so many entries.
  device::GemmEntry entry_of(const Instr& product, const Region& stored, int32_t entry,
                             int set) const;
  device::GemmFollow follow_of(const Lane& lane, const FollowedBy& followed);
  void add_destination(const Region& to, int32_t row, const RowPart& part, device::GemmTask& task);
  // Of the rows of the result that begin with `row`. `part` is the rows of the tile that its task
  // computes.
  device::GemmDestination destination(const Region& to, int32_t row, const RowPart& part);

  const TableBasis& basis_;
  const device::GemmConfig& config_;
  GemmLaunch& launch_;
  MapList maps_;
  ChoiceRows choices_;
};

}  // namespace stretto::cuda
