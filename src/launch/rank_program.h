// What the host of a rank enqueues for one run of a plan: streams of kernels, transfers,
// collectives, waits and notifies.
//
// Compute lanes become one stream: each stretch between two boundaries is a GEMM kernel (the tiles
// and the sums that it adds to them) and a mover kernel (what lanes do after their last tile), and
// the end of a kernel is the boundary. Where all that lanes do after their last tile is to norm
// rows, the GEMM kernel's blocks do it too (plan/tile_rows.h). Partitions that lanes make ahead of
// their first tile are a mover kernel before both. Comm lanes are one mover kernel on a stream of
// its own, or blocks of the GEMM kernels that they are for (joined_movers.h); every copy lane and
// every nccl lane is a stream. Waits and notifies inside a kernel are the kernel's; those at a
// boundary or in a copy or nccl lane are steps of the stream. Where a step of the same rank makes a
// notify that another step awaits, a stream event takes the counter's place.
//
// What compute lanes await behind their last task is dealt out to the blocks of the kernel before
// it when the rank has no copy and no nccl lanes: then nothing but that kernel and the comm lanes,
// which have their SMs, can run until those waits are over, so blocks that stay hold nobody up.
// Beside the other lanes kernels run that need a place on an SM, and a peer may wait for them:
// there such waits are steps behind the kernel.
//
// Where a library multiplies, what is called a GEMM kernel here is its products
// (library_products.h): nothing but gemms, and waits and notifies are steps around it. So it is
// with the kernel of few rows; what it sends to the collective behind it, that one's kernel only
// receives, right behind it in the same stream.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "launch/gemm_choice.h"
#include "launch/tile_sums.h"
#include "stretto/plan.h"

namespace stretto::cuda {

// A route is no launch: the kernel of the collective that is the step before it makes it.
enum class StepKind : uint8_t { gemm, move, wait, notify, copy, collective, record, await, route };

struct Step {
  StepKind kind = StepKind::gemm;
  uint32_t index = 0;               // gemm, move: kernel; record, await: event
  uint32_t lane = 0, position = 0;  // the others: their instruction

  const Instr& instr(const Plan& plan) const { return plan.lanes[lane].instrs[position]; }
  bool operator==(const Step&) const = default;
};

// What one block of a kernel does: instructions [begin, end) of plan.lanes[lane]. Then it makes
// these waits, of its own lane or of others.
struct BlockPart {
  uint32_t lane = 0, begin = 0, end = 0;
  std::vector<Step> at_end = {};
};

struct StepStream {
  LaneKind kind = LaneKind::compute;
  uint16_t index = 0;
  std::vector<Step> steps;
};

struct RankProgram {
  std::vector<StepStream> streams;                   // the compute lanes' first
  std::vector<std::vector<BlockPart>> gemms, moves;  // blocks of each kernel
  // Of each of `gemms` that norms rows, which of `moves` these are: no step, but the ends of its
  // blocks' parts, one for each of them.
  std::vector<std::optional<uint32_t>> rows;
  bool are_rows(size_t move) const {
    return std::find(rows.begin(), rows.end(), static_cast<uint32_t>(move)) != rows.end();
  }
  // Of each of `gemms` whose first blocks are movers, which of `moves` these are: no step either.
  std::vector<std::optional<uint32_t>> movers;
  bool joins() const {
    return std::any_of(movers.begin(), movers.end(),
                       [](const auto& one) { return one.has_value(); });
  }
  bool is_in_gemm(size_t move) const {
    const auto number = static_cast<uint32_t>(move);
    return std::find(movers.begin(), movers.end(), number) != movers.end() || are_rows(move);
  }
  uint32_t num_events = 0;
  std::vector<uint32_t> behind;  // of each of `gemms`: boundaries before it
  std::vector<GemmNeeds> needs;  // of each of `gemms`
  // Of each of `gemms` that is of few rows and sent: the step of the collective that receives it
  // (sent_products.h).
  std::vector<std::optional<Step>> sent;
  bool receives(const Step& step) const {
    return std::find(sent.begin(), sent.end(), step) != sent.end();
  }
  // Which of the GEMM kernels `gemms[kernel]` is, or which of the library's and of few rows.
  uint32_t number_of_kind(uint32_t kernel) const;
  // Of the plan: what its gemms add.
  std::shared_ptr<const TileSums> sums;
  // (stream, step) of every step in an order in which one thread may enqueue them (order_steps.h):
  // events are recorded before they are awaited.
  std::vector<std::pair<uint32_t, uint32_t>> order;
};

// Their kernels and streams alone, by rank: no events, no order, nothing that collectives take
// over, and of needs only who multiplies, whether rows choose matrices, and what blocks do beside
// tiles. A fraction of the work, for who asks of many plans which kernels there are.
std::vector<RankProgram> kernels_of(const Plan& plan);

std::vector<RankProgram> programs_of(const Plan& plan);  // by rank
std::vector<RankProgram> programs_of(const Plan& plan, std::shared_ptr<const TileSums> sums);

}  // namespace stretto::cuda
