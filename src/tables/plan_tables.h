// The kernels of a rank's program as the tables that they walk.
#pragma once

#include <vector>

#include "gpu/gemm_kernel.h"
#include "gpu/tensor_map.h"
#include "launch/buffer_places.h"
#include "launch/rank_program.h"
#include "launch/signal_layout.h"
#include "stretto/device/mover_task.h"
#include "stretto/plan.h"
#include "tables/gemm_table.h"

namespace stretto::cuda {

// A tensor map before the driver has encoded it.
struct MapSpec {
  enum class Use : uint8_t { a, b, sums, store };
  Use use = Use::a;
  Matrix matrix;
  int box_rows = 0;  // of a store or of sums
};

// One launch of the GEMM kernel. `table` is complete but for its maps.
struct GemmLaunch {
  device::GemmConfig config;
  GemmTable table;
  std::vector<MapSpec> maps;    // table.map_sets times the same list
  std::vector<uint32_t> lanes;  // of the plan, by block
  // By block: the position in its lane of each task's last gemm, or of the sum that it makes alone.
  std::vector<std::vector<uint32_t>> positions;
};

struct MoverTable {
  std::vector<std::vector<device::MoverTask>> blocks;
  std::vector<device::WaitEntry> waits;
  std::vector<device::NotifyEntry> notifies;
  std::vector<std::vector<device::MoverRegion>> regions;  // by set
  std::vector<uint32_t> lanes;                            // of the plan, by block
  // By block: the position in its lane of what each task does, or of what comes behind its waits.
  std::vector<std::vector<uint32_t>> positions;
  device::RowsOfRun rows{};  // block 0: every run has the plan's
  bool norms = false;        // some task norms
  bool passes = false;       // a pass makes them
  int slices = 1;            // of each task of a pass, by as many blocks
  int shared_by = 0;  // blocks of a pass that share the tasks of the only one that is listed;
                      // 0: each has its own
  int cluster = 0;    // blocks that make each block's partitions; 0: movers or a pass
  std::vector<device::RoutedTask> routed;
};

struct RankTables {
  std::vector<GemmLaunch> gemms;  // as the program numbers them; none where a library multiplies
  std::vector<MoverTable> moves;
};

RankTables tables_for(const Plan& plan, int rank, const RankProgram& program,
                      const BufferPlaces& places, const SignalLayout& signals, bool serves = false);

// Asks the driver for a map, and for those of a launch.
device::TensorMap encode_map(const MapSpec& spec, const device::GemmConfig& config);
void encode_maps(GemmLaunch& launch);

}  // namespace stretto::cuda
