// The kernels of a rank's runs, with their tables.
#include <fmt/format.h>

#include <algorithm>

#include "run/rank_streams.h"
#include "stretto/error.h"
#include "tables/shared_pass.h"

namespace stretto::runtime {

device::SignalSpace RankStreams::space_of(KernelPlace place, int blocks) {
  device::SignalSpace space = setup_.space;
  space.runs = counts_.add(blocks);
  space.kernel = static_cast<uint32_t>(places_of_kernels_.size());
  places_of_kernels_.push_back(std::move(place));
  return space;
}

void RankStreams::add_kernels() {
  const cuda::RankProgram& program = setup_.program;
  cuda::RankTables tables = cuda::tables_for(setup_.plan, setup_.rank, program, setup_.places,
                                             setup_.signals, setup_.serves);
  for (cuda::MoverTable& table : tables.moves) {
    // A pass would leave no SM free; and what awaits a rank whose kernels run on the same SMs has
    // to leave it some.
    const bool awaits = !table.waits.empty();
    if (setup_.device.free_sms() > 0 || (awaits && setup_.device.ranks() > 1)) table.passes = false;
    if (!setup_.marks) cuda::share_rows(table);
    cuda::cut_tasks(table, setup_.device.num_sms());
  }
  if (setup_.calls != nullptr) {
    cuda::CallBlob blob(tables);
    if (blob.num_call_maps() + blob.num_call_addresses() > 0) {
      call_memory_ = std::make_unique<CallMemory>(std::move(blob));
    }
    const auto& tensors = setup_.calls->all();
    const bool copies = std::any_of(tensors.begin(), tensors.end(), [](const auto& tensor) {
      return tensor.is_copied && tensor.is_output && tensor.scales;
    });
    if (copies && setup_.rows_in_memory) copy_rows_.emplace(setup_.device, setup_.kernels);
  }
  for (uint32_t kernel = 0; kernel < program.gemms.size(); ++kernel) {
    if (program.needs[kernel].library) continue;
    cuda::GemmLaunch& launch = tables.gemms[gemms_.size()];
    if (!call_memory_) cuda::encode_maps(launch);
    gemm_kernels_.push_back(&setup_.kernels.gemm(setup_.device, launch.config));
    const auto blocks = static_cast<int>(launch.table.blocks.size());
    gemms_.emplace_back(launch.table, space_of({&program.gemms[kernel], {}}, blocks), setup_.marks);
    add_marks(launch.lanes, launch.positions);
  }
  const bool routes = setup_.plan.has_tables();
  if (routes) bad_ids_ = cuda::upload(std::vector<uint64_t>(1, 0));
  for (size_t i = 0; i < tables.moves.size(); ++i) {
    const int of_each =
        tables.moves[i].passes ? tables.moves[i].slices : std::max(1, tables.moves[i].cluster);
    const auto listed = static_cast<int>(tables.moves[i].blocks.size());
    const int blocks = std::max(listed * of_each, tables.moves[i].shared_by);
    moves_.emplace_back(tables.moves[i], space_of({&program.moves[i], {}}, blocks), setup_.marks,
                        routes ? bad_ids_.as<device::uint64>() : nullptr);
    add_marks(tables.moves[i].lanes, tables.moves[i].positions);
  }
  if (gemms_.size() < program.gemms.size()) add_products();
  require_clusters();
  bool moves = false, norms = false;
  for (size_t i = 0; i < tables.moves.size(); ++i) {
    const cuda::MoverTable& table = tables.moves[i];
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

// Blocks of a cluster stand on SMs of one part of the GPU, so a GPU may hold fewer pairs than its
// SMs are; and all of a kernel's must be there at once, since they wait for each other. What others
// run on an SM that is left to them may take a pair's place.
void RankStreams::require_clusters() const {
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

uint64_t RankStreams::bad_ids() const {
  uint64_t count = 0;
  if (bad_ids_.num_bytes() != 0) bad_ids_.download(&count, sizeof(count));
  return count;
}

void RankStreams::add_marks(std::vector<uint32_t>& lanes,
                            std::vector<std::vector<uint32_t>>& positions) {
  if (setup_.marks) marks_.push_back({std::move(lanes), std::move(positions), {}});
}

}  // namespace stretto::runtime
