// The kernels of a rank's program as the tables that they walk.
#pragma once

#include <vector>

#include "cuda/gemm_table.h"
#include "cuda/rank_program.h"
#include "cuda/signal_layout.h"
#include "stretto/device/mover_task.h"
#include "stretto/plan.h"

namespace stretto::cuda {

// Where every instance of every buffer lies: [rank][buffer][copy], addresses as this rank sees
// them.
using BufferPlaces = std::vector<std::vector<std::vector<DevicePtr>>>;

// A tensor map before the driver has encoded it.
struct MapSpec {
  enum class Use : uint8_t { a, b, store };
  Use use = Use::a;
  Matrix matrix;
  int box_rows = 0;  // of a store
};

// One launch of the GEMM kernel. `table` is complete but for its maps.
struct GemmLaunch {
  GemmTable table;
  std::vector<MapSpec> maps;    // table.map_sets times the same list
  std::vector<uint32_t> lanes;  // of the plan, by block
};

struct MoverTable {
  std::vector<std::vector<device::MoverTask>> blocks;
  std::vector<device::WaitEntry> waits;
  std::vector<device::NotifyEntry> notifies;
  std::vector<std::vector<device::MoverRegion>> regions;  // by set
  std::vector<uint32_t> lanes;                            // of the plan, by block
  device::RowsOfRun rows{};                               // block 0: every run has the plan's
};

struct RankTables {
  device::GemmConfig config;
  std::vector<GemmLaunch> gemms;  // as the program numbers them
  std::vector<MoverTable> moves;
};

// Why the CUDA target cannot run this plan; empty when it can.
std::vector<std::string> why_not_on_cuda(const Plan& plan);

// The smallest kernel whose tiles hold rows x columns. Throws UsageError when there is none.
device::GemmConfig config_of(DType input, DType output, int rows, int columns);
// The kernel that suits the plan's tiles; with `serves` runs may have fewer rows (serve.h).
device::GemmConfig config_for(const Plan& plan, bool serves = false);

RankTables tables_for(const Plan& plan, int rank, const RankProgram& program,
                      const BufferPlaces& places, const SignalLayout& signals, bool serves = false);

// Asks the driver for the maps of a launch.
void encode_maps(GemmLaunch& launch, const device::GemmConfig& config);

// Instances that runs alternate between: the period after which buffers are the same again.
int num_sets(const Plan& plan);

}  // namespace stretto::cuda
