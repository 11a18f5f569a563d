#include "tables/gemm_tasks.h"

#include <algorithm>
#include <iterator>

#include "plan/placed.h"
#include "stretto/error.h"

namespace stretto::cuda {

using device::GemmTask;

namespace {

// A map that ends behind a whole block of K need not end there: other ranges of K share it.
int32_t end_of_map(const Plan& plan, const Region& region) {
  const bool may_end_behind = region.col1 % device::kTileK == 0;
  return may_end_behind ? plan.buffers[region.buffer].cols_on(region.rank) : region.col1;
}

}  // namespace

void GemmTasks::add(uint32_t lane, uint32_t at, const TileSum& sum, std::vector<GemmTask>& tasks,
                    const FollowedBy& followed) {
  const Plan& plan = basis_.plan;
  GemmTable& table = launch_.table;
  const std::vector<Instr>& instrs = plan.lanes[lane].instrs;
  const Instr& gemm = instrs[at];
  const Region& b = plan.reads(gemm).back();
  const Instr& first = sum.of_ranges != 0 ? instrs[sum.first] : gemm;
  const int32_t k = plan.reads(first).back().col0;
  uint32_t blocks = 0;
  for (uint32_t i = sum.of_ranges != 0 ? sum.first : at; i <= at; ++i) {
    if (is_product(instrs[i].op)) blocks += blocks_of_k(plan, instrs[i]);
  }
  const device::TaskRows rows = basis_.task_rows(gemm);
  for_each_row_part(plan, gemm, [&](const RowPart& part) {
    const Region& a = *part.a;
    GemmTask& task = tasks.emplace_back();
    task.tile = static_cast<uint32_t>(gemm.tile);
    task.rows = rows;
    if (basis_.rows_of.is_compact(a.buffer)) task.rows.flags |= device::kInputIsCompact;
    task.a_map = maps_.number_of(MapSpec::Use::a, a, end_of_map(plan, a));
    task.b_map = maps_.number_of(MapSpec::Use::b, b, end_of_map(plan, b));
    task.a_row = a.row0;
    task.b_row = b.row0;
    task.first_k = static_cast<uint16_t>(k / device::kTileK);
    task.num_k = static_cast<uint16_t>(blocks);
    task.first_destination = static_cast<uint32_t>(table.destinations.size());
    const auto store = [&](const Region& to, int32_t row) { add_destination(to, row, part, task); };
    if (followed.last != nullptr) {
      for_each_placed_write(plan, *followed.last, store);
    } else {
      basis_.sums.for_each_store(plan, lane, at, store);
    }
    if (config_.sources) table.sources.back().push_back(source_of(first, gemm, sum));
    const bool two = config_.follower == device::Follower::swiglu;
    if (config_.splits) {
      table.splits.back().push_back(split_of(plan.lanes[lane], at, sum));
      if (two) {
        table.splits.back().push_back(
            split_of(plan.lanes[lane], followed.other, followed.other_sum));
      }
    }
    if (two || config_.bias) {
      table.follows.back().push_back(follow_of(plan.lanes[lane], followed));
    }
  });
  // What others await in order to add to it is not held up for the loads of the next tile.
  if (basis_.sums.of(lane, at).stores_before()) tasks.back().stores_far = 0;
}

void GemmTasks::add_entries(uint32_t lane, uint32_t at, std::vector<GemmTask>& tasks,
                            const FollowedBy& followed) {
  const Plan& plan = basis_.plan;
  GemmTable& table = launch_.table;
  const Instr& product = plan.lanes[lane].instrs[at];
  const std::span<const Region> reads = plan.reads(product);
  const Region &a = reads.front(), &experts = reads[1], &b = reads.back();
  const int32_t rows = rows_of_entry(plan, product);
  const Instr& stored = followed.last != nullptr ? *followed.last : product;
  for (int32_t entry = 0; entry < experts.rows(); ++entry) {
    const RowPart part{entry * rows, (entry + 1) * rows, &a};
    GemmTask& task = tasks.emplace_back();
    task.tile = static_cast<uint32_t>(product.tile);
    task.b_map = maps_.number_of(MapSpec::Use::b, b, end_of_map(plan, b));
    task.b_row = b.row0;
    if (!gathers_rows(product.op)) {
      task.a_map = maps_.number_of(MapSpec::Use::a, a, end_of_map(plan, a));
      task.a_row = a.row0 + part.first;
    }
    task.num_k = static_cast<uint16_t>((b.col1 + device::kTileK - 1) / device::kTileK);
    task.first_destination = static_cast<uint32_t>(table.destinations.size());
    if (!config_.scatters) {
      for_each_placed_write(plan, stored, [&](const Region& to, int32_t row) {
        add_destination(to, row, part, task);
      });
    }
    for (int set = 0; set < basis_.sets; ++set) {
      table.entries[static_cast<size_t>(set)].back().push_back(
          entry_of(product, plan.writes(stored)[0], entry, set));
    }
    if (config_.follower == device::Follower::swiglu || config_.bias) {
      table.follows.back().push_back(follow_of(plan.lanes[lane], followed));
    }
  }
}

device::GemmEntry GemmTasks::entry_of(const Instr& product, const Region& stored, int32_t entry,
                                      int set) const {
  const Plan& plan = basis_.plan;
  const std::span<const Region> reads = plan.reads(product);
  const auto address_of_row = [&](const Region& region, int32_t row) {
    return basis_.address(region, set) +
           offset_of(plan.buffers[region.buffer], region.row0 + row, region.col0);
  };
  const Region& b = reads.back();
  device::GemmEntry of{};
  of.expert = address_of_row(reads[1], entry);
  of.rows = static_cast<uint32_t>(rows_of_entry(plan, product));
  of.each = static_cast<uint32_t>(product.count(0));
  // The last matrix has as many rows in the region as the result has columns.
  const int64_t others = b.rows() - plan.writes(product)[0].cols();
  of.experts = static_cast<uint32_t>(others / product.count(0) + 1);
  const int32_t first = entry * static_cast<int32_t>(of.rows);
  if (config_.scatters) {
    const std::optional<ChoiceTables> tables = choices_.of(product, stored);
    STRETTO_ASSERT(tables, "a tile without tables is handed over by choice");
    const Buffer& output = plan.buffers[stored.buffer];
    of.choices = address_of_row(tables->choices, first);
    of.to.address =
        basis_.address(stored, set) + offset_of(output, tables->rows->row0, stored.col0);
    of.to.row_bytes = row_bytes_of(output);
    of.to.rows = static_cast<uint32_t>(tables->rows->rows());
    of.to.column_bytes = static_cast<uint32_t>(stored.cols() * num_bytes(output.dtype));
  }
  if (!gathers_rows(product.op)) return of;
  const Region& x = reads[2];
  of.choices = address_of_row(reads[0], first);
  of.x = address_of_row(x, 0);
  of.x_row_bytes = row_bytes_of(plan.buffers[x.buffer]);
  of.x_rows = static_cast<uint32_t>(x.rows());
  of.per = static_cast<uint32_t>(product.count(1));
  of.k_bytes = static_cast<uint32_t>(x.cols() * num_bytes(plan.buffers[x.buffer].dtype));
  return of;
}

void GemmTasks::add_part(uint32_t lane, uint32_t at, const TileSum& sum,
                         std::vector<GemmTask>& tasks) {
  const Plan& plan = basis_.plan;
  const std::vector<Instr>& instrs = plan.lanes[lane].instrs;
  GemmTask& task = tasks.emplace_back();
  task.tile = static_cast<uint32_t>(instrs[at].tile);
  task.rows = basis_.task_rows(instrs[at]);
  task.first_destination = static_cast<uint32_t>(launch_.table.destinations.size());
  for_each_row_part(plan, instrs[at], [&](const RowPart& all) {
    basis_.sums.for_each_store_of_part(
        plan, instrs[sum.of_ranks], sum,
        [&](const Region& to, int32_t row) { add_destination(to, row, all, task); });
  });
  if (config_.splits) launch_.table.splits.back().emplace_back();
  if (config_.sources) launch_.table.sources.back().emplace_back();
  if (config_.bias) launch_.table.follows.back().push_back(launch_.table.follows.back().back());
}

void GemmTasks::add_destination(const Region& to, int32_t row, const RowPart& part,
                                GemmTask& task) {
  if (row >= part.last || row + to.rows() <= part.first) return;
  launch_.table.destinations.push_back(destination(to, row, part));
  ++task.num_destinations;
  if (to.rank != basis_.rank) task.stores_far = 1;
  if (basis_.rows_of.is_compact(to.buffer)) task.rows.flags |= device::kOutputIsCompact;
}

device::GemmFollow GemmTasks::follow_of(const Lane& lane, const FollowedBy& followed) {
  const Plan& plan = basis_.plan;
  device::GemmFollow follow{};
  if (config_.follower == device::Follower::swiglu) {
    const Region& b = plan.reads(lane.instrs[followed.other]).back();
    follow.b_map = maps_.number_of(MapSpec::Use::b, b, end_of_map(plan, b));
    follow.b_row = b.row0;
  }
  for (size_t half = 0; half < std::size(followed.bias); ++half) {
    const Region* const bias = followed.bias[half];
    if (bias == nullptr) continue;
    STRETTO_ASSERT(bias->cols() % 2 == 0 && bias->col0 % 2 == 0, "bias is read in pairs");
    follow.bias[half] =
        basis_.address(*bias, 0) + offset_of(plan.buffers[bias->buffer], bias->row0, bias->col0);
    follow.bias_columns = static_cast<uint16_t>(bias->cols());
    for (int set = 1; set < basis_.sets; ++set) {
      STRETTO_ASSERT(basis_.address(*bias, set) == basis_.address(*bias, 0),
                     "bias is where it is in every run");
    }
  }
  return follow;
}

device::GemmSource GemmTasks::source_of(const Instr& first, const Instr& last, const TileSum& sum) {
  const Plan& plan = basis_.plan;
  const Region &a = plan.reads(first).front(), &b = plan.reads(first).back();
  device::GemmSource source{};
  const int32_t k = plan.buffers[b.buffer].cols_on(b.rank);
  source.end_block = static_cast<uint16_t>((k + device::kTileK - 1) / device::kTileK);
  const bool has_own = sum.by_source && a.buffer != plan.reads(last).front().buffer;
  if (!has_own) return source;
  source.own_map = maps_.number_of(MapSpec::Use::a, a, end_of_map(plan, a));
  source.own_row = a.row0;
  source.own_blocks = static_cast<uint16_t>(blocks_of_k(plan, first));
  return source;
}

device::GemmSplit GemmTasks::split_of(const Lane& lane, uint32_t at, const TileSum& sum) const {
  const Region& own = basis_.plan.writes(lane.instrs[at])[0];
  device::GemmSplit split{};
  const bool is_last = sum.of_ranges != 0;
  if (!basis_.sums.holds_ranges(own.buffer) || (is_last && sum.others == 0)) return split;
  const Buffer& buffer = basis_.plan.buffers[own.buffer];  // of fp32
  split.row_bytes = static_cast<uint32_t>(row_bytes_of(buffer));
  split.rows = static_cast<uint16_t>(own.rows());
  split.columns = static_cast<uint16_t>(own.cols());
  split.sums = basis_.address(own, 0) + offset_of(buffer, own.row0, own.col0);
  split.ranges = 1;
  if (!is_last) return split;
  const auto reads = basis_.plan.reads(lane.instrs[sum.of_ranges]);
  const int32_t step_rows = reads[1].row0 - reads[0].row0;
  split.step =
      static_cast<uint32_t>(uint64_t{split.row_bytes} * static_cast<uint32_t>(step_rows) / 16);
  split.ranges = sum.others + 1;
  return split;
}

void GemmTasks::add_sources(const Instr& reduce, const TileSum& sum, GemmTask& task) {
  const Region& first = basis_.plan.reads(reduce)[0];
  const int32_t columns = basis_.plan.buffers[first.buffer].cols;
  const int32_t row = sum.part.row;
  // Of a whole tile all rows at once; of a part no more chunks than it has rows in.
  const int32_t box_rows = sum.stores_before() ? device::kChunkRows : config_.tile_m;
  task.sum_map = maps_.number_of(MapSpec::Use::sums, first, columns, box_rows);
  task.sum_box = static_cast<uint8_t>(box_rows / device::kChunkRows);
  task.sum_begin = static_cast<uint8_t>(row / box_rows);
  task.sum_end = static_cast<uint8_t>((row + first.rows() + box_rows - 1) / box_rows);
  task.sum_own = static_cast<uint8_t>(sum.own_at);
  task.sum_row = first.row0 - row;
  task.sum_column = first.col0;
  task.sum_step = sum.step_rows;
  if (!sum.has_residual) return;
  std::vector<device::GemmDestination>& entries = launch_.table.destinations;
  STRETTO_ASSERT(entries.size() == task.first_destination + task.num_destinations,
                 "a residual's entry stands behind its task's destinations");
  const Region& residual = basis_.plan.reads(reduce).back();
  task.sum_elsewhere = 1;
  device::GemmDestination& entry = entries.emplace_back();
  entry.row = residual.row0 - row;
  entry.column = residual.col0;
  entry.map =
      maps_.number_of(MapSpec::Use::sums, residual,
                      basis_.plan.buffers[residual.buffer].cols_on(residual.rank), box_rows);
}

device::GemmDestination GemmTasks::destination(const Region& to, int32_t row, const RowPart& part) {
  const Buffer& buffer = basis_.plan.buffers[to.buffer];
  const int32_t to_end = row + to.rows();
  // A region that does not take the tile's full width gets maps that end where it ends; one that
  // ends with its buffer ends with the maps.
  const bool is_narrow = to.cols() < device::layout_of(config_).stored_columns;
  const int32_t columns = is_narrow ? to.col1 : buffer.cols_on(to.rank);
  const bool ends_with_maps = to_end <= part.last && to.row1 == buffer.rows_on(to.rank);
  const int32_t begin = std::max(row, part.first) - part.first;
  const int32_t end = ends_with_maps ? config_.tile_m : std::min(to_end, part.last) - part.first;
  device::GemmDestination entry{};
  entry.row = to.row0 - row + part.first;
  entry.column = to.col0;
  entry.begin = static_cast<uint16_t>(begin);
  entry.end = static_cast<uint16_t>(end);
  entry.map = maps_.number_of(MapSpec::Use::store, to, columns, device::kChunkRows);
  if (basis_.serves || begin % device::kChunkRows != 0 || end % device::kChunkRows != 0) {
    STRETTO_ASSERT(device::layout_of(config_).stores_rows(begin, end),
                   "boxes of a part of a tile begin at multiples of 128 bytes");
    entry.part_maps = maps_.number_of_parts(to, columns);
  }
  return entry;
}

}  // namespace stretto::cuda
