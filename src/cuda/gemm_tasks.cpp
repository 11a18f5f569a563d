#include "cuda/gemm_tasks.h"

#include <algorithm>

#include "stretto/error.h"
#include "stretto/serve.h"

namespace stretto::cuda {

using device::GemmTask;

namespace {

// A map that ends behind a whole block of K need not end there: other ranges of K share it.
int32_t end_of_map(const Plan& plan, const Region& region) {
  return region.col1 % device::kTileK == 0 ? plan.buffers[region.buffer].cols : region.col1;
}

}  // namespace

void GemmTasks::add(uint32_t lane, uint32_t at, std::vector<GemmTask>& tasks) {
  GemmTable& table = launch_.table;
  const Instr& gemm = basis_.plan.lanes[lane].instrs[at];
  const Instr* stored = basis_.sums.stored_by(basis_.plan, lane, at);
  const Region& b = basis_.plan.reads(gemm).back();
  const TileSum sum = basis_.sums.of(lane, at);
  const Instr& first = sum.of_ranges != 0 ? basis_.plan.lanes[lane].instrs[sum.first] : gemm;
  const int32_t k = basis_.plan.reads(first).front().col0;
  for (const RowPart& part : row_parts(basis_.plan, gemm)) {
    const Region& a = *part.a;
    GemmTask task{};
    task.tile = static_cast<uint32_t>(gemm.tile);
    task.rows = basis_.task_rows(gemm);
    if (is_compact(basis_.plan, a.buffer)) task.rows.flags |= device::kInputIsCompact;
    if (stored != nullptr && is_compact(basis_.plan, basis_.plan.writes(*stored)[0].buffer)) {
      task.rows.flags |= device::kOutputIsCompact;
    }
    task.a_map = map_of(MapSpec::Use::a, a, end_of_map(basis_.plan, a));
    task.b_map = map_of(MapSpec::Use::b, b, end_of_map(basis_.plan, b));
    task.a_row = a.row0;
    task.b_row = b.row0;
    task.first_k = static_cast<uint16_t>(k / device::kTileK);
    task.num_k = static_cast<uint16_t>((a.col1 - k + device::kTileK - 1) / device::kTileK);
    task.first_destination = static_cast<uint32_t>(table.destinations.size());
    if (stored != nullptr) {
      for (const Placed& placed : placed_writes(basis_.plan, *stored)) {
        if (placed.row >= part.last || placed.row + placed.region.rows() <= part.first) continue;
        table.destinations.push_back(destination(placed, part));
        ++task.num_destinations;
        if (placed.region.rank != basis_.rank) task.stores_far = 1;
      }
    }
    tasks.push_back(task);
    if (config_.splits) table.splits.back().push_back(split_of(lane, at));
  }
}

device::GemmSplit GemmTasks::split_of(uint32_t lane, uint32_t at) const {
  const std::vector<Instr>& instrs = basis_.plan.lanes[lane].instrs;
  const Region& own = basis_.plan.writes(instrs[at])[0];
  device::GemmSplit split{};
  const TileSum sum = basis_.sums.of(lane, at);
  const bool is_last = sum.of_ranges != 0;
  if (!basis_.sums.holds_ranges(own.buffer) || (is_last && sum.others == 0)) return split;
  split.row_bytes = static_cast<uint32_t>(basis_.plan.buffers[own.buffer].cols) * 4;
  split.rows = static_cast<uint16_t>(own.rows());
  split.columns = static_cast<uint16_t>(own.cols());
  split.sums = basis_.address(own, 0) + static_cast<uint64_t>(own.row0) * split.row_bytes +
               static_cast<uint64_t>(own.col0) * 4;
  split.ranges = 1;
  if (!is_last) return split;
  const auto reads = basis_.plan.reads(instrs[sum.of_ranges]);
  const int32_t step_rows = reads[1].row0 - reads[0].row0;
  split.step =
      static_cast<uint32_t>(uint64_t{split.row_bytes} * static_cast<uint32_t>(step_rows) / 16);
  split.ranges = sum.others + 1;
  return split;
}

void GemmTasks::add_sources(const Instr& reduce, const TileSum& sum, GemmTask& task) {
  const Region& first = basis_.plan.reads(reduce)[0];
  task.sum_map = map_of(MapSpec::Use::sums, first, basis_.plan.buffers[first.buffer].cols);
  task.sum_own = static_cast<uint16_t>(sum.own_at);
  task.sum_row = first.row0;
  task.sum_column = first.col0;
  task.sum_step = sum.step_rows;
}

void GemmTasks::finish() {
  for (const auto& list : map_lists_) {
    launch_.maps.insert(launch_.maps.end(), list.begin(), list.end());
  }
}

uint16_t GemmTasks::map_of(MapSpec::Use use, const Region& region, int32_t columns, int box_rows) {
  const auto key = std::tuple(use, region.buffer, region.rank, columns, box_rows);
  const auto [found, is_new] = map_ids_.try_emplace(key, map_lists_[0].size());
  if (is_new) {
    STRETTO_ASSERT(map_lists_[0].size() < UINT16_MAX, "a kernel has too many tensor maps");
    const Buffer& buffer = basis_.plan.buffers[region.buffer];
    for (int set = 0; set < basis_.sets; ++set) {
      Matrix matrix;
      matrix.address = basis_.address(region, set);
      matrix.rows = buffer.rows_on(region.rank);
      matrix.columns = columns;
      matrix.stride = buffer.cols;
      matrix.dtype = buffer.dtype;
      map_lists_[static_cast<size_t>(set)].push_back({use, matrix, box_rows});
    }
  }
  return static_cast<uint16_t>(found->second);
}

device::GemmDestination GemmTasks::destination(const Placed& placed, const RowPart& part) {
  const Region& to = placed.region;
  const Buffer& buffer = basis_.plan.buffers[to.buffer];
  const int32_t to_end = placed.row + to.rows();
  // A region that does not take the tile's full width gets maps that end where it ends; one that
  // ends with its buffer ends with the maps.
  const int32_t columns = to.cols() < config_.tile_n ? to.col1 : buffer.cols;
  const bool ends_with_maps = to.row1 == buffer.rows_on(to.rank) && to_end <= part.last;
  const int32_t begin = std::max(placed.row, part.first) - part.first;
  const int32_t end = ends_with_maps ? config_.tile_m : std::min(to_end, part.last) - part.first;
  device::GemmDestination entry{};
  entry.row = to.row0 - placed.row + part.first;
  entry.column = to.col0;
  entry.begin = static_cast<uint16_t>(begin);
  entry.end = static_cast<uint16_t>(end);
  entry.map = map_of(MapSpec::Use::store, to, columns, device::kChunkRows);
  if (basis_.serves || begin % device::kChunkRows != 0 || end % device::kChunkRows != 0) {
    const size_t num_maps = map_lists_[0].size();
    entry.part_maps = map_of(MapSpec::Use::store, to, columns, device::kChunkRows / 2);
    const bool is_new = map_lists_[0].size() > num_maps;  // then they all are
    for (int rows = device::kChunkRows / 4; is_new && rows > 0; rows /= 2) {
      map_of(MapSpec::Use::store, to, columns, rows);
    }
  }
  return entry;
}

}  // namespace stretto::cuda
