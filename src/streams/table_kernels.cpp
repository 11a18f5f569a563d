#include "streams/table_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "stretto/error.h"
#include "tables/call_blob.h"
#include "tables/shared_pass.h"

namespace stretto::runtime {

using cuda::DevicePtr;
using cuda::Stream;

TableKernels::TableKernels(const Setup& setup) : setup_(setup) {
  cuda::RankTables tables = cuda::tables_for(setup.plan, setup.rank, setup.program, setup.places,
                                             setup.signals, setup.serves);
  for (cuda::MoverTable& table : tables.moves) {
    // A pass would leave no SM free; and what awaits a rank whose kernels run on the same SMs has
    // to leave it some.
    const bool awaits = !table.waits.empty();
    if (setup.device.free_sms() > 0 || (awaits && setup.device.ranks() > 1)) table.passes = false;
    if (!setup.marks) cuda::share_rows(table);
    cuda::cut_tasks(table, setup.device.num_sms());
  }
  if (setup.has_calls) {
    cuda::CallBlob blob(tables);
    if (blob.num_call_maps() + blob.num_call_addresses() > 0) {
      call_memory_ = std::make_unique<CallMemory>(std::move(blob));
    }
  }
  add_gemms(tables.gemms);
  add_moves(tables.moves);
  require_clusters();
}

void TableKernels::add_gemms(std::vector<cuda::GemmLaunch>& launches) {
  const cuda::RankProgram& program = setup_.program;
  for (uint32_t kernel = 0; kernel < program.gemms.size(); ++kernel) {
    if (program.needs[kernel].library) continue;
    cuda::GemmLaunch& launch = launches[gemms_.size()];
    if (!call_memory_) cuda::encode_maps(launch);
    gemm_kernels_.push_back(&setup_.kernels.gemm(setup_.device, launch.config));
    const auto blocks = static_cast<int>(launch.table.blocks.size());
    gemms_.emplace_back(launch.table, setup_.spaces.add({&program.gemms[kernel], {}}, blocks),
                        setup_.marks);
    add_marks(launch.lanes, launch.positions);
  }
}

void TableKernels::add_moves(std::vector<cuda::MoverTable>& tables) {
  const cuda::RankProgram& program = setup_.program;
  const bool routes = setup_.plan.has_tables();
  if (routes) bad_ids_ = cuda::upload(std::vector<uint64_t>(1, 0));
  bool moves = false, norms = false;
  for (size_t i = 0; i < tables.size(); ++i) {
    cuda::MoverTable& table = tables[i];
    const int of_each = table.passes ? table.slices : std::max(1, table.cluster);
    const auto listed = static_cast<int>(table.blocks.size());
    const int blocks = std::max(listed * of_each, table.shared_by);
    moves_.emplace_back(table, setup_.spaces.add({&program.moves[i], {}}, blocks), setup_.marks,
                        routes ? bad_ids_.as<device::uint64>() : nullptr);
    add_marks(table.lanes, table.positions);
    if (program.is_in_gemm(i)) continue;
    if (table.cluster != 0) {
      partition_ = &setup_.kernels.partition(setup_.device);
    } else if (table.passes) {
      pass_ = &setup_.kernels.pass(setup_.device, routes);
    } else {
      moves = true;
      norms = norms || table.norms;
    }
  }
  if (moves) mover_ = &setup_.kernels.mover(setup_.device, norms, routes);
}

void TableKernels::add_marks(std::vector<uint32_t>& lanes,
                             std::vector<std::vector<uint32_t>>& positions) {
  if (setup_.marks) marks_.push_back({std::move(lanes), std::move(positions), {}});
}

// Blocks of a cluster stand on SMs of one part of the GPU, so a GPU may hold fewer pairs than its
// SMs are; and all of a kernel's must be there at once, since they wait for each other. What others
// run on an SM that is left to them may take a pair's place.
void TableKernels::require_clusters() const {
  const int ranks = setup_.device.ranks();
  for (size_t i = 0; i < gemms_.size(); ++i) {
    const device::GemmConfig& config = gemm_kernels_[i]->config();
    const device::GemmLayout layout = device::layout_of(config);
    if (layout.cluster == 1) continue;
    const int held =
        std::max(0, gemm_kernels_[i]->kernel().resident_clusters(layout.threads, layout.cluster) -
                        setup_.device.free_sms());
    int blocks = gemms_[i].num_blocks();
    if (const std::optional<uint32_t> joined = setup_.program.movers[i]) {
      const auto movers = static_cast<uint32_t>(moves_[*joined].num_blocks());
      blocks += static_cast<int>(device::mover_blocks(config, movers));
    }
    const int needed = blocks / layout.cluster;
    if (needed * ranks <= held) continue;
    const int sms = held / ranks * layout.cluster;
    throw UsageError(fmt::format(
        "a rank of the plan has {} clusters of {} blocks, this GPU holds {} at once{}{}: lower it "
        "{}with cluster=1",
        needed, layout.cluster, held, ranks > 1 ? fmt::format(", of {} ranks", ranks) : "",
        setup_.device.free_sms() > 0
            ? fmt::format(" with {} SMs left free", setup_.device.free_sms())
            : "",
        sms > 0 ? fmt::format("for a machine with sms={}, or ", sms) : ""));
  }
}

DevicePtr TableKernels::blob_of(const Stream& main, const CallSlots::Key& key,
                                cuda::CallPlaces places, bool is_captured) {
  return call_memory_ ? call_memory_->find(main, key, places, is_captured) : 0;
}

namespace {

template <typename Params>
void set_rows(Params& params, const RowsOfCall& rows) {
  if (rows.at != 0) {
    params.rows.at = reinterpret_cast<const int32_t*>(rows.at);
  } else if (rows.rows != 0) {
    params.rows.rows = rows.rows;
  }
}

}  // namespace

device::GemmParams TableKernels::gemm_at(size_t number, const Call& call) const {
  device::GemmParams params = gemms_[number].params();
  set_rows(params, call.rows);
  if (!call_memory_) return params;
  const cuda::CallBlob::Gemm& own = call_memory_->blob().gemms()[number];
  params.maps = reinterpret_cast<const device::TensorMap*>(call.blob + own.maps);
  params.num_maps = own.num_maps;
  params.acquired = reinterpret_cast<uint32_t*>(call.blob + own.acquired);
  if (own.follows) {
    params.follows = reinterpret_cast<const device::GemmFollow*>(call.blob + *own.follows);
  }
  if (own.entries) {
    params.entries = reinterpret_cast<const device::GemmEntry*>(call.blob + *own.entries);
  }
  return params;
}

device::MoverParams TableKernels::move_at(size_t number, const Call& call) const {
  device::MoverParams params = moves_[number].params();
  set_rows(params, call.rows);
  if (!call_memory_) return params;
  if (const std::optional<size_t> regions = call_memory_->blob().regions()[number]) {
    params.regions = reinterpret_cast<const device::MoverRegion*>(call.blob + *regions);
  }
  return params;
}

void TableKernels::multiply(uint32_t kernel, const Stream& stream, const Call& call,
                            bool starts_early) const {
  const uint32_t number = setup_.program.number_of_kind(kernel);
  const cuda::DeviceGemmTable& table = gemms_[number];
  const cuda::GemmKernel& made = *gemm_kernels_[number];
  const device::GemmParams params = gemm_at(number, call);
  if (const std::optional<uint32_t> joined = setup_.program.movers[kernel]) {
    const auto movers = static_cast<uint32_t>(moves_[*joined].num_blocks());
    made.launch(
        stream, table.num_blocks(),
        {params, move_at(*joined, call), movers, device::mover_blocks(made.config(), movers)},
        starts_early);
  } else if (const std::optional<uint32_t> rows = setup_.program.rows[kernel]) {
    made.launch(stream, table.num_blocks(), device::GemmRowsParams{params, move_at(*rows, call)},
                starts_early);
  } else {
    made.launch(stream, table.num_blocks(), params, starts_early);
  }
}

void TableKernels::move(uint32_t kernel, const Stream& stream, const Call& call,
                        bool starts_early) const {
  const device::MoverParams params = move_at(kernel, call);
  const cuda::DeviceMoverTable& table = moves_[kernel];
  if (const int cluster = table.cluster()) {
    const device::PassParams pass = table.pass_params(params);
    partition_->launch(stream, table.num_blocks() * cluster, device::kPartitionThreads, cluster,
                       &pass, starts_early);
  } else if (table.passes()) {
    const device::PassParams pass = table.pass_params(params);
    pass_->launch(stream, table.num_pass_blocks(), device::kPassThreads, 1, &pass, starts_early);
  } else {
    mover_->launch(stream, table.num_blocks(), device::kMoverThreads, 1, &params, starts_early);
  }
}

std::vector<KernelMarks> TableKernels::marks() const {
  std::vector<KernelMarks> marks = marks_;
  for (size_t i = 0; i < marks.size(); ++i) {
    const cuda::MarkWords& words =
        i < gemms_.size() ? gemms_[i].marks() : moves_[i - gemms_.size()].marks();
    marks[i].words = words.read();
  }
  return marks;
}

uint64_t TableKernels::bad_ids() const {
  uint64_t count = 0;
  if (bad_ids_.num_bytes() != 0) bad_ids_.download(&count, sizeof(count));
  return count;
}

}  // namespace stretto::runtime
