// Runs of plans whose streams share one queue of the hardware, as streams do beyond 8 or with
// CUDA_DEVICE_MAX_CONNECTIONS=1: a step there holds up all that was enqueued after it until it has
// begun, and it begins when the step before it in its stream has ended.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <tuple>

#include "launch/rank_program.h"
#include "plan_fixture.h"
#include "space/random_point.h"
#include "tables/plan_limits.h"

namespace stretto::cuda {
namespace {

class OneQueue {
 public:
  OneQueue(const Plan& plan, const std::vector<RankProgram>& programs)
      : plan_(plan), programs_(programs), ranks_(programs.size()) {}

  // Where ranks stand that do not come to their ends; empty when all do.
  std::string stuck() {
    for (bool moves = true; moves;) {
      moves = false;
      for (size_t r = 0; r < ranks_.size(); ++r) moves |= begin_steps(r);
      for (Kernel& kernel : kernels_) moves |= go_on(kernel);
    }
    std::string text;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      const auto& order = programs_[r].order;
      if (ranks_[r].next == order.size()) continue;
      const auto [stream, step] = order[ranks_[r].next];
      text += fmt::format("rank {} before step {} of stream {}; ", r, step, stream);
    }
    return text;
  }

 private:
  using Place = std::pair<uint32_t, uint32_t>;  // stream and step
  struct Rank {
    size_t next = 0;  // in its queue
    std::set<Place> ended;
    std::set<uint32_t> recorded;
  };
  struct Kernel {
    size_t rank;
    std::optional<Place> place;  // nothing: movers that are blocks of another's kernel
    const std::vector<BlockPart>* parts;
    std::vector<uint32_t> at;    // by block
    std::vector<size_t> waited;  // by block: at its end
  };

  bool has_come(size_t rank, const Instr& wait) {
    const auto counter = std::tuple(rank, wait.signal.array, wait.signal.index);
    return wait.lag > 0 || counters_[counter] >= wait.amount;
  }
  void tell(const Instr& notify) {
    counters_[std::tuple(size_t{notify.rank}, notify.signal.array, notify.signal.index)] +=
        notify.amount;
  }

  bool begin_steps(size_t r) {
    const auto& order = programs_[r].order;
    const size_t before = ranks_[r].next;
    while (ranks_[r].next < order.size() && begin(r, order[ranks_[r].next])) ++ranks_[r].next;
    return ranks_[r].next != before;
  }

  bool begin(size_t r, const Place& place) {
    const RankProgram& program = programs_[r];
    Rank& rank = ranks_[r];
    const Step& step = program.streams[place.first].steps[place.second];
    if (place.second > 0 && rank.ended.count({place.first, place.second - 1}) == 0) return false;
    switch (step.kind) {
      case StepKind::wait:
        if (!has_come(r, step.instr(plan_))) return false;
        break;
      case StepKind::await:
        if (rank.recorded.count(step.index) == 0) return false;
        break;
      case StepKind::record:
        rank.recorded.insert(step.index);
        break;
      case StepKind::notify:
        tell(step.instr(plan_));
        break;
      case StepKind::copy:
      case StepKind::route:
        break;
      case StepKind::gemm:
        launch({r, place, &program.gemms[step.index], {}, {}});
        if (const std::optional<uint32_t> joined = program.movers[step.index]) {
          launch({r, std::nullopt, &program.moves[*joined], {}, {}});
        }
        return true;
      case StepKind::move:
        launch({r, place, &program.moves[step.index], {}, {}});
        return true;
      case StepKind::collective: {
        auto& begun = collectives_[step.instr(plan_).id];
        begun.push_back({r, place});
        if (begun.size() < ranks_.size()) return true;
        for (const auto& [other, at] : begun) ranks_[other].ended.insert(at);
        return true;
      }
    }
    rank.ended.insert(place);
    return true;
  }

  void launch(Kernel kernel) {
    for (const BlockPart& part : *kernel.parts) kernel.at.push_back(part.begin);
    kernel.waited.assign(kernel.parts->size(), 0);
    kernels_.push_back(std::move(kernel));
  }

  bool go_on(Kernel& kernel) {
    bool moved = false, ends = true;
    for (size_t b = 0; b < kernel.parts->size(); ++b) {
      const BlockPart& part = (*kernel.parts)[b];
      for (uint32_t& at = kernel.at[b]; at < part.end; ++at, moved = true) {
        const Instr& instr = plan_.lanes[part.lane].instrs[at];
        if (instr.op == Opcode::wait && !has_come(kernel.rank, instr)) break;
        if (instr.op == Opcode::notify) tell(instr);
      }
      size_t& waited = kernel.waited[b];
      while (kernel.at[b] == part.end && waited < part.at_end.size() &&
             has_come(kernel.rank, part.at_end[waited].instr(plan_))) {
        ++waited;
        moved = true;
      }
      ends = ends && kernel.at[b] == part.end && waited == part.at_end.size();
    }
    if (!ends || !kernel.place) return moved;
    return ranks_[kernel.rank].ended.insert(*kernel.place).second || moved;
  }

  const Plan& plan_;
  const std::vector<RankProgram>& programs_;
  std::vector<Rank> ranks_;
  std::vector<Kernel> kernels_;
  std::map<std::tuple<size_t, uint16_t, int32_t>, int64_t> counters_;
  std::map<int32_t, std::vector<std::pair<size_t, Place>>> collectives_;  // who has begun them
};

TEST(OneQueue, HoldsUpNoPlan) {
  int several_streams = 0;
  for (const char* kind : {"ag-gemm", "gemm-rs", "gemm-ar"}) {
    for (const char* schedule :
         {"sequential", "sequential,mover=copy-engine", "library,mover=copy-engine", "decomposed",
          "decomposed,sync=flag", "decomposed,chunks=3", "two-chunk", "two-chunk,mover=copy-engine",
          "two-chunk,sync=flag", "waves", "tiles", "tiles,comm-sms=8", "tiles,mover=copy-engine",
          "tiles,mover=copy-engine,reuse=ack", "slices"}) {
      for (const char* sizes : {"m=512 n=512 k=512 ranks=2", "m=517 n=960 k=576 ranks=3",
                                "m=4096 n=2048 k=2048 ranks=4", "m=1030 n=1600 k=1600 ranks=8"}) {
        const std::string op_text = fmt::format("{} {} dtype=bf16", kind, sizes);
        const Segment op = parse_segment(op_text);
        const Machine machine = default_machine(op.ranks);
        const Schedule point = parse_schedule(schedule, op, machine);
        if (!problems(op).empty() || !legal(op, point, machine).empty()) continue;
        const Plan plan = lower(op, point, machine);
        if (!why_not_on_cuda(plan).empty()) continue;
        const std::vector<RankProgram> programs = programs_of(plan);
        EXPECT_EQ(OneQueue(plan, programs).stuck(), "") << op_text << " " << schedule;
        several_streams += programs[0].streams.size() > 1;
      }
    }
  }
  EXPECT_GT(several_streams, 50);
}

TEST(OneQueue, HoldsUpNoPlanOfTheSpace) {
  constexpr int kPoints = 5000;
  std::mt19937_64 random(7);
  int several_streams = 0;
  for (int i = 0; i < kPoints; ++i) {
    Point point = random_point(random);
    // More of them are plans that GPUs run, on several streams.
    point.op.dtype = DType::bf16;
    point.machine = default_machine(point.op.ranks);
    point.schedule.mover = Mover::copy_engine;
    point.schedule.tile_m = point.schedule.tile_n = 128;
    if (!legal(point.op, point.schedule, point.machine).empty()) continue;
    const Plan plan = lower(point.op, point.schedule, point.machine);
    if (!why_not_on_cuda(plan).empty()) continue;
    const std::vector<RankProgram> programs = programs_of(plan);
    EXPECT_EQ(OneQueue(plan, programs).stuck(), "") << to_string(point);
    several_streams += programs[0].streams.size() > 1;
  }
  EXPECT_GT(several_streams, 20);
}

// What waits for the peers ahead of the copies that they wait for.
TEST(OneQueue, IsStuckWhereAWaitStandsBeforeWhatItNeeds) {
  const Plan plan = plan_of("ag-gemm m=512 n=512 k=512 ranks=2 dtype=bf16", "decomposed");
  std::vector<RankProgram> programs = programs_of(plan);
  for (RankProgram& program : programs) std::sort(program.order.begin(), program.order.end());
  EXPECT_EQ(OneQueue(plan, programs).stuck(),
            "rank 0 before step 1 of stream 0; rank 1 before step 1 of stream 0; ");
}

}  // namespace
}  // namespace stretto::cuda
