#include "tables/routed_tasks.h"

#include <algorithm>

#include "gpu/device_types.h"
#include "plan/tile_task.h"
#include "stretto/device/mover_routed.h"
#include "stretto/error.h"
#include "tables/routed_kinds.h"

namespace stretto::cuda {

using device::MoverTask;
using device::MoverType;
using device::RoutedTask;

namespace {

class RoutedTaskBuilder {
 public:
  RoutedTaskBuilder(const TableBasis& basis, const ChoiceRows& choices, const Instr& instr,
                    MoverTable& table)
      : basis_(basis),
        choices_(choices),
        plan_(basis.plan),
        instr_(instr),
        reads_(plan_.reads(instr)),
        writes_(plan_.writes(instr)),
        table_(table) {}

  MoverTask build() {
    const tasks::RoutedKernel& kernel = routed_kernel_of(instr_.op);
    const Region& from = reads_[kernel.source];
    task_.tile = static_cast<uint32_t>(instr_.tile);
    task_.num_sources = instr_.num_reads;
    task_.num_destinations = instr_.num_writes;
    task_.from = type_of(from);
    task_.to = type_of(writes_[0]);
    task_.rows = static_cast<uint32_t>(writes_[0].rows());
    task_.columns = static_cast<uint32_t>(writes_[0].cols());
    task_.first_region = static_cast<uint32_t>(table_.regions[0].size());
    add_regions(reads_);
    add_results();
    routed_.kind = kernel.kind;
    routed_.wide_ids = std::any_of(reads_.begin(), reads_.end(), [&](const Region& read) {
      return plan_.buffers[read.buffer].dtype == DType::i64;
    });
    describe(kernel);
    table_.routed.push_back(routed_);
    task_.routed = static_cast<uint32_t>(table_.routed.size());
    return task_;
  }

 private:
  MoverType type_of(const Region& region) const {
    return device_type<MoverType>(plan_.buffers[region.buffer].dtype);
  }

  // What the row of the kind says, besides what all have.
  void describe(const tasks::RoutedKernel& kernel) {
    const TaskKind& kind = *instr_.kind();
    const int64_t experts = kind.counts[0].empty() ? 0 : instr_.count(0);
    routed_.experts = static_cast<uint32_t>(experts);
    const device::ExpertShares shares{static_cast<int32_t>(experts), plan_.ranks()};
    if (kernel.describe != nullptr) {
      std::vector<MoverType> types;
      for (const Region& read : reads_) types.push_back(type_of(read));
      kernel.describe({plan_.operands_of(instr_), types, shares, basis_.rank, instr_.attribute(),
                       rows_by_choice_, task_, routed_});
    }
    if (kernel.moves == tasks::RoutedMoves::nothing) return;
    const auto from = reads_.subspan(kernel.source);
    const bool from_one = kernel.moves == tasks::RoutedMoves::one_source;
    routed_.vectors = moves_vectors(from_one ? from.first(1) : from) && moves_vectors(writes_);
  }

  // A call's tensors begin where they like, so who reads or writes them goes element by element
  // only where that is known now.
  bool moves_vectors(std::span<const Region> regions) const {
    return std::all_of(regions.begin(), regions.end(), [&](const Region& region) {
      const Buffer& buffer = plan_.buffers[region.buffer];
      bool fits = region.cols() % 8 == 0 && row_bytes_of(buffer) % 16 == 0;
      for (int set = 0; set < basis_.sets; ++set) {
        const DevicePtr at =
            basis_.address(region, set) + offset_of(buffer, region.row0, region.col0);
        fits = fits && at % 16 == 0;
      }
      return fits;
    });
  }

  // Rows by choice begin with that of the first choice of the partition's tokens.
  void add_results() {
    if (!stores_by_choice(instr_.op) || !is_by_choice(plan_.buffers[writes_[0].buffer])) {
      return add_regions(writes_);
    }
    const std::optional<ChoiceTables> tables = choices_.of_permuted(instr_);
    STRETTO_ASSERT(tables, "rows without tables are handed over by choice");
    Region to = writes_[0];
    to.row0 = tables->rows->row0;
    to.row1 = tables->rows->row1;
    rows_by_choice_ = static_cast<uint32_t>(to.rows());
    add_regions({&to, 1});
  }

  void add_regions(std::span<const Region> regions) {
    for (int set = 0; set < basis_.sets; ++set) {
      for (const Region& region : regions) {
        const Buffer& buffer = plan_.buffers[region.buffer];
        table_.regions[static_cast<size_t>(set)].push_back(
            {basis_.address(region, set) + offset_of(buffer, region.row0, region.col0),
             row_bytes_of(buffer)});
      }
    }
  }

  const TableBasis& basis_;
  const ChoiceRows& choices_;
  const Plan& plan_;
  const Instr& instr_;
  const std::span<const Region> reads_, writes_;
  MoverTable& table_;
  MoverTask task_{};
  RoutedTask routed_{};
  uint32_t rows_by_choice_ = 0;
};

}  // namespace

MoverTask routed_task(const TableBasis& basis, const ChoiceRows& choices, const Instr& instr,
                      MoverTable& table, LaneHazards& hazards) {
  MoverTask task = RoutedTaskBuilder(basis, choices, instr, table).build();
  task.drains = hazards.must_end_before(basis.plan.reads(instr), basis.plan.writes(instr)) ? 1 : 0;
  return task;
}

bool makes_partition(const MoverTable& table, size_t first) {
  return std::any_of(table.routed.begin() + static_cast<std::ptrdiff_t>(first), table.routed.end(),
                     [](const RoutedTask& routed) { return device::makes_partition(routed.kind); });
}

void stage_sums(const std::vector<MoverTask>& tasks, MoverTable& table, size_t first) {
  const bool is_free = std::all_of(tasks.begin(), tasks.end(),
                                   [](const MoverTask& task) { return task.vectors == 0; });
  if (!is_free) return;
  for (size_t i = first; i < table.routed.size(); ++i) {
    RoutedTask& routed = table.routed[i];
    if (device::is_sum(routed.kind) && routed.vectors == 1) routed.vectors = 2;
  }
}

void keep_off_the_ring(std::vector<MoverTask>& tasks) {
  for (MoverTask& task : tasks) {
    STRETTO_ASSERT(task.num_normed == 0, "a lane that makes a partition norms nothing");
    task.vectors = 0;
  }
}

}  // namespace stretto::cuda
