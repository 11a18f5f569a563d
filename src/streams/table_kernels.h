// The kernels of a rank's runs that walk tables of tasks in GPU memory: products in tiles, movers,
// passes and partitions.
#pragma once

#include <memory>
#include <vector>

#include "calls/call_memory.h"
#include "calls/rows_of_call.h"
#include "gpu/gemm_kernel.h"
#include "launch/call_places.h"
#include "launch/rank_program.h"
#include "streams/kernel_spaces.h"
#include "streams/launch_setup.h"
#include "streams/marked_tasks.h"
#include "tables/gemm_table.h"
#include "tables/mover_table.h"
#include "tables/plan_tables.h"

namespace stretto::runtime {

class TableKernels {
 public:
  struct Setup : LaunchSetup {
    const cuda::RankProgram& program;
    const cuda::SignalLayout& signals;
    KernelSpaces& spaces;
    bool serves = false;     // runs may have fewer rows
    bool marks = false;      // kernels tell when they did what
    bool has_calls = false;  // that name the caller's tensors
  };
  // Throws UsageError where the GPU cannot hold a kernel's clusters all at once.
  explicit TableKernels(const Setup& setup);

  // A call, and where what tables have of its tensors lies: 0 where nothing hangs on them.
  struct Call {
    RowsOfCall rows;
    cuda::DevicePtr blob = 0;
  };
  cuda::DevicePtr blob_of(const cuda::Stream& main, const CallSlots::Key& key,
                          cuda::CallPlaces places, bool is_captured);

  // `gemms[kernel]` of the program, one in tiles, with the movers that it has on board;
  // `moves[kernel]` by itself. `starts_early`: before the kernel ahead of it has ended.
  void multiply(uint32_t kernel, const cuda::Stream& stream, const Call& call,
                bool starts_early) const;
  void move(uint32_t kernel, const cuda::Stream& stream, const Call& call, bool starts_early) const;

  // Of every kernel, where the setup asks for them; while no run is under way.
  std::vector<KernelMarks> marks() const;
  // Of all runs that have ended: ids that were no expert's and not -1, of all tokens.
  uint64_t bad_ids() const;
  // Where kernels count these.
  cuda::DevicePtr bad_ids_at() const { return bad_ids_.address(); }

 private:
  void add_gemms(std::vector<cuda::GemmLaunch>& launches);
  void add_moves(std::vector<cuda::MoverTable>& tables);
  void add_marks(std::vector<uint32_t>& lanes, std::vector<std::vector<uint32_t>>& positions);
  void require_clusters() const;
  device::GemmParams gemm_at(size_t number, const Call& call) const;
  device::MoverParams move_at(size_t number, const Call& call) const;

  Setup setup_;
  std::unique_ptr<CallMemory> call_memory_;  // where tables hang on a call's addresses
  std::vector<const cuda::GemmKernel*> gemm_kernels_;
  std::vector<cuda::DeviceGemmTable> gemms_;  // of each of these
  std::vector<cuda::DeviceMoverTable> moves_;
  const cuda::Kernel* mover_ = nullptr;
  const cuda::Kernel* pass_ = nullptr;
  const cuda::Kernel* partition_ = nullptr;
  std::vector<KernelMarks> marks_;  // without their words, of gemms_ and then moves_
  cuda::DeviceMemory bad_ids_;      // one number, where rows choose experts
};

}  // namespace stretto::runtime
