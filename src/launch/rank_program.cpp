#include "launch/rank_program.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "launch/joined_movers.h"
#include "launch/joined_partitions.h"
#include "launch/order_steps.h"
#include "launch/sent_products.h"
#include "launch/stream_events.h"
#include "plan/tile_rows.h"
#include "stretto/error.h"

namespace stretto::cuda {
namespace {

// A deliver hands over what is there already: nothing to run.
bool runs(const Instr& instr) { return instr.op != Opcode::deliver; }

// A compute lane's instructions between two boundaries.
struct Stretch {
  uint32_t lane, begin, end;
};

class MainStream {
 public:
  // With `alone` the rank has compute and comm lanes only.
  MainStream(const Plan& plan, bool alone, RankProgram& program)
      : plan_(plan), alone_(alone), program_(program) {}

  // What the compute lanes have between two boundaries, `number` of which stand before it.
  void add(const std::vector<Stretch>& stretches, size_t number) {
    const bool by_library = plan_.library_at(number).has_value();
    std::vector<BlockPart> head, gemm, move;
    std::vector<Step> notifies, behind, waits;
    for (const Stretch& stretch : stretches) {
      const std::vector<Instr>& instrs = plan_.lanes[stretch.lane].instrs;
      uint32_t begin = stretch.begin, end = stretch.end;
      for (; begin < end && instrs[begin].op == Opcode::notify; ++begin) {
        notifies.push_back({StepKind::notify, 0, stretch.lane, begin});
      }
      uint32_t tail = end;
      while (tail > begin && (instrs[tail - 1].op == Opcode::wait || !runs(instrs[tail - 1]))) {
        --tail;
      }
      for (uint32_t i = tail; i < end; ++i) {
        if (runs(instrs[i])) waits.push_back({StepKind::wait, 0, stretch.lane, i});
      }
      // A mover kernel of its own, since the tiles of all lanes go by its tables and its rows.
      const uint32_t tiles = end_of_head(instrs, begin, tail);
      if (begin < tiles) head.push_back({stretch.lane, begin, tiles, {}});
      begin = tiles;
      uint32_t split = end_of_tiles(stretch.lane, begin, tail, by_library);
      if (begin < split) gemm.push_back({stretch.lane, begin, split, {}});
      // A library's kernel tells nobody.
      for (; by_library && split < tail && instrs[split].op == Opcode::notify; ++split) {
        behind.push_back({StepKind::notify, 0, stretch.lane, split});
      }
      if (split < tail) move.push_back({stretch.lane, split, tail, {}});
    }
    const std::vector<BlockPart> rows =
        by_library ? std::vector<BlockPart>() : take_rows(gemm, move);
    if (gemm.empty() && stand_apart(head, move)) {
      // What makes tables and what sends meanwhile are one kernel.
      move.insert(move.end(), head.begin(), head.end());
      std::sort(move.begin(), move.end(),
                [](const BlockPart& a, const BlockPart& b) { return a.lane < b.lane; });
      head.clear();
    }
    std::vector<BlockPart>& last = !move.empty() ? move : !gemm.empty() ? gemm : head;
    if (alone_ && !(by_library && move.empty())) deal_out(waits, last);
    std::vector<Step>& steps = program_.streams[0].steps;
    steps.insert(steps.end(), notifies.begin(), notifies.end());
    add_kernel(StepKind::move, std::move(head), program_.moves);
    if (!gemm.empty()) {
      program_.behind.push_back(static_cast<uint32_t>(number));
      program_.needs.push_back(kernel_at(number, gemm.front()));
      program_.needs.back().norms = !rows.empty();
      program_.rows.emplace_back();
      program_.movers.emplace_back();
      if (!rows.empty()) {
        program_.rows.back() = static_cast<uint32_t>(program_.moves.size());
        program_.moves.push_back(rows);
      }
    }
    add_kernel(StepKind::gemm, std::move(gemm), program_.gemms);
    steps.insert(steps.end(), behind.begin(), behind.end());
    add_kernel(StepKind::move, std::move(move), program_.moves);
    steps.insert(steps.end(), waits.begin(), waits.end());
  }

 private:
  GemmNeeds kernel_at(size_t number, const BlockPart& first) const {
    GemmNeeds needs;
    needs.library = plan_.library_at(number);
    needs.few_rows = needs.library && plan_.few_rows_at(number);
    const auto begin = plan_.lanes[first.lane].instrs.begin();
    const auto product = std::find_if(begin + first.begin, begin + first.end,
                                      [](const Instr& instr) { return is_product(instr.op); });
    needs.grouped = product != begin + first.end && is_routed_product(product->op);
    return needs;
  }

  // What `move` has, where the blocks of `gemm` can do it all behind their tiles: their parts then
  // go on with it.
  std::vector<BlockPart> take_rows(std::vector<BlockPart>& gemm,
                                   std::vector<BlockPart>& move) const {
    const bool all = std::all_of(move.begin(), move.end(), [&](const BlockPart& part) {
      return are_rows_of_tiles(plan_, plan_.lanes[part.lane], part.begin, part.end);
    });
    if (move.empty() || !all) return {};
    std::vector<BlockPart> rows, blocks = gemm;
    auto next = move.begin();
    for (BlockPart& block : blocks) {  // both by lane
      const bool has_rows = next != move.end() && next->lane == block.lane;
      rows.push_back(has_rows ? *next++ : BlockPart{block.lane, block.end, block.end, {}});
      block.end = rows.back().end;
    }
    if (next != move.end()) return {};  // of a lane without tiles
    gemm = std::move(blocks);
    move.clear();
    return rows;
  }

  // Different lanes have them, and none awaits or tells another.
  bool stand_apart(const std::vector<BlockPart>& head, const std::vector<BlockPart>& move) const {
    if (head.empty() || move.empty()) return false;
    const auto is_sync = [](const Instr& instr) { return instr.is_sync(); };
    const auto has_sync = [&](const BlockPart& part) {
      const std::vector<Instr>& instrs = plan_.lanes[part.lane].instrs;
      return std::any_of(instrs.begin() + part.begin, instrs.begin() + part.end, is_sync);
    };
    const auto in_both = [&](const BlockPart& one) {
      return std::any_of(move.begin(), move.end(),
                         [&](const BlockPart& other) { return other.lane == one.lane; });
    };
    return std::none_of(head.begin(), head.end(), in_both) &&
           std::none_of(head.begin(), head.end(), has_sync) &&
           std::none_of(move.begin(), move.end(), has_sync);
  }

  // Every wait to one of the blocks, so that they take one round trip and not one after the other;
  // those that lanes have in common once.
  void deal_out(std::vector<Step>& waits, std::vector<BlockPart>& blocks) const {
    if (blocks.empty()) return;
    const auto key_of = [&](const Step& wait) {
      const Instr& instr = wait.instr(plan_);
      return std::tuple(instr.signal.array, instr.signal.index, instr.lag);
    };
    // Of one key the wait for the largest amount stands first.
    std::stable_sort(waits.begin(), waits.end(), [&](const Step& a, const Step& b) {
      const auto x = key_of(a), y = key_of(b);
      return x != y ? x < y : a.instr(plan_).amount > b.instr(plan_).amount;
    });
    const auto same_key = [&](const Step& a, const Step& b) { return key_of(a) == key_of(b); };
    waits.erase(std::unique(waits.begin(), waits.end(), same_key), waits.end());
    size_t block = 0;
    for (const Step& wait : waits) blocks[block++ % blocks.size()].at_end.push_back(wait);
    waits.clear();
  }

  // One past the last tile, what follows it, its sum and the notifies behind them.
  uint32_t end_of_tiles(uint32_t lane, uint32_t begin, uint32_t end, bool by_library) const {
    const std::vector<Instr>& instrs = plan_.lanes[lane].instrs;
    uint32_t split = begin;
    InGemm in_gemm;
    for (uint32_t i = begin; i < end; ++i) {
      if (in_gemm.pass(instrs[i]) && instrs[i].is_task()) split = i + 1;
    }
    if (by_library) return split;
    while (split > begin && split < end && instrs[split].op == Opcode::notify) ++split;
    return split;
  }

  void add_kernel(StepKind kind, std::vector<BlockPart> blocks,
                  std::vector<std::vector<BlockPart>>& kernels) {
    if (blocks.empty()) return;
    program_.streams[0].steps.push_back({kind, static_cast<uint32_t>(kernels.size()), 0, 0});
    kernels.push_back(std::move(blocks));
  }

  const Plan& plan_;
  bool alone_;
  RankProgram& program_;
};

void add_compute_lanes(const Plan& plan, const std::vector<uint32_t>& lanes, bool alone,
                       RankProgram& program) {
  MainStream main(plan, alone, program);
  std::vector<uint32_t> at(lanes.size(), 0);
  bool more = !lanes.empty();
  for (size_t number = 0; more; ++number) {
    std::vector<Stretch> stretches;
    more = false;
    for (size_t i = 0; i < lanes.size(); ++i) {
      const std::vector<Instr>& instrs = plan.lanes[lanes[i]].instrs;
      uint32_t end = at[i];
      while (end < instrs.size() && instrs[end].op != Opcode::boundary) ++end;
      if (at[i] < end) stretches.push_back({lanes[i], at[i], end});
      more = more || end < instrs.size();
      at[i] = std::min(end + 1, static_cast<uint32_t>(instrs.size()));
    }
    main.add(stretches, number);
  }
}

constexpr std::pair<Opcode, StepKind> kHostSteps[] = {{Opcode::wait, StepKind::wait},
                                                      {Opcode::notify, StepKind::notify},
                                                      {Opcode::copy, StepKind::copy},
                                                      {Opcode::collective, StepKind::collective}};

StepStream host_lane(const Plan& plan, uint32_t index) {
  const Lane& lane = plan.lanes[index];
  StepStream stream{lane.kind, lane.index, {}};
  for (uint32_t i = 0; i < lane.instrs.size(); ++i) {
    const Opcode op = lane.instrs[i].op;
    if (op == Opcode::deliver) continue;
    const auto* const found = std::find_if(std::begin(kHostSteps), std::end(kHostSteps),
                                           [&](const auto& one) { return one.first == op; });
    STRETTO_ASSERT(found != std::end(kHostSteps), "a lane of the host's has no such instruction");
    stream.steps.push_back({found->second, 0, index, i});
  }
  return stream;
}

}  // namespace

uint32_t RankProgram::number_of_kind(uint32_t kernel) const {
  const bool by_library = needs[kernel].library.has_value();
  return static_cast<uint32_t>(
      std::count_if(needs.begin(), needs.begin() + kernel,
                    [&](const GemmNeeds& one) { return one.library.has_value() == by_library; }));
}

std::vector<RankProgram> kernels_of(const Plan& plan) {
  std::vector<RankProgram> programs(static_cast<size_t>(plan.ranks()));
  uint32_t next = 0;  // lanes stand rank by rank
  for (size_t rank = 0; rank < programs.size(); ++rank) {
    RankProgram& program = programs[rank];
    program.streams.push_back({LaneKind::compute, 0, {}});
    std::vector<uint32_t> compute;
    std::vector<BlockPart> comm;
    std::vector<StepStream> host_lanes;
    for (; next < plan.lanes.size() && plan.lanes[next].rank == rank; ++next) {
      const uint32_t i = next;
      const Lane& lane = plan.lanes[i];
      if (lane.instrs.empty()) continue;
      if (lane.kind == LaneKind::compute) {
        compute.push_back(i);
      } else if (lane.kind == LaneKind::comm) {
        comm.push_back({i, 0, static_cast<uint32_t>(lane.instrs.size()), {}});
      } else {
        host_lanes.push_back(host_lane(plan, i));
      }
    }
    add_compute_lanes(plan, compute, host_lanes.empty(), program);
    if (!comm.empty()) {
      const auto kernel = static_cast<uint32_t>(program.moves.size());
      program.moves.push_back(std::move(comm));
      program.streams.push_back({LaneKind::comm, 0, {{StepKind::move, kernel, 0, 0}}});
    }
    for (StepStream& stream : host_lanes) program.streams.push_back(std::move(stream));
  }
  join_movers(plan, programs);
  return programs;
}

std::vector<RankProgram> programs_of(const Plan& plan) {
  return programs_of(plan, std::make_shared<const TileSums>(plan));
}

std::vector<RankProgram> programs_of(const Plan& plan, std::shared_ptr<const TileSums> sums) {
  std::vector<RankProgram> programs = kernels_of(plan);
  for (RankProgram& program : programs) {
    program.sums = sums;
    for (size_t kernel = 0; kernel < program.gemms.size(); ++kernel) {
      const GemmNeeds found =
          std::exchange(program.needs[kernel], sums->needs()[program.behind[kernel]]);
      program.needs[kernel].norms = found.norms;
      program.needs[kernel].moves = found.moves;
    }
  }
  find_receivers(plan, *sums, programs);
  put_events(plan, programs);
  join_partitions(plan, programs);
  order_steps(plan, programs);
  return programs;
}

}  // namespace stretto::cuda
