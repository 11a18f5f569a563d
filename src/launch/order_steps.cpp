#include "launch/order_steps.h"

#include <algorithm>
#include <map>
#include <set>

#include "launch/kernel_progress.h"
#include "stretto/error.h"

namespace stretto::cuda {
namespace {

// A kernel of a rank: what it awaits, and how far it comes once it is enqueued.
struct KernelRun {
  struct Wait {
    size_t counter;
    int64_t own;  // what the kernel itself adds to it
  };
  std::vector<Wait> waits;  // of the same run
  size_t made = 0;          // the first of them that are made, as far as the rank makes them
  KernelProgress progress;
};

// Enqueues all ranks' streams in turn, each as far as it can go.
class Ordering {
 public:
  Ordering(const Plan& plan, std::vector<RankProgram>& programs)
      : plan_(plan),
        kernels_(plan, programs.size()),
        own_missing_(kernels_.num_counters(), 0),
        by_kernel_(own_missing_) {
    ranks_.reserve(programs.size());
    for (size_t rank = 0; rank < programs.size(); ++rank) add(rank, programs[rank]);
  }

  void run() {
    for (Try how = Try::most;;) {
      kernels_.go_on();
      const bool moved = pass(how);
      if (num_left_ == 0) return;
      if (!moved && how == Try::forced) {  // plans that are proved have such streams nowhere
        throw UsageError(
            "streams of a rank wait for each other's events, as where compute lanes do not pass "
            "the same boundaries: `stretto check` says what is wrong with the plan");
      }
      how = moved ? Try::most : how == Try::most ? Try::waits : Try::forced;
    }
  }

 private:
  // What is enqueued when nothing before it in this list can be: waits of the compute lanes'
  // streams, behind the copies that others may wait for; and one step of a plan that holds itself
  // up.
  enum class Try { most, waits, forced };

  struct Rank {
    size_t number;
    RankProgram* program;
    std::vector<uint32_t> priority;       // of streams: comm blocks first, so they have their SMs
    std::vector<uint32_t> at;             // by stream: the next step
    std::vector<KernelRun> gemms, moves;  // as in the program
    std::set<uint32_t> recorded;          // events

    const std::vector<Step>& steps(uint32_t s) const { return program->streams[s].steps; }
    bool is_comm(uint32_t s) const { return program->streams[s].kind == LaneKind::comm; }
    KernelRun& kernel(const Step& step) {
      return (step.kind == StepKind::gemm ? gemms : moves)[step.index];
    }
    const std::vector<BlockPart>& blocks(const Step& step) const {
      return (step.kind == StepKind::gemm ? program->gemms : program->moves)[step.index];
    }
  };

  static bool is_kernel(const Step& step) {
    return step.kind == StepKind::gemm || step.kind == StepKind::move;
  }

  template <typename Visit>
  void for_each_sync(const Rank& rank, const Step& step, Visit visit) const {
    if (is_kernel(step)) {
      for (const BlockPart& part : rank.blocks(step)) {
        for (uint32_t i = part.begin; i < part.end; ++i) visit(plan_.lanes[part.lane].instrs[i]);
        for (const Step& wait : part.at_end) visit(wait.instr(plan_));
      }
    } else if (step.kind == StepKind::wait || step.kind == StepKind::notify) {
      visit(step.instr(plan_));
    }
  }
  // The rank's notifies to itself.
  template <typename Visit>
  void for_each_own(const Rank& rank, const Step& step, Visit visit) const {
    for_each_sync(rank, step, [&](const Instr& instr) {
      if (instr.op != Opcode::notify || instr.rank != rank.number) return;
      visit(kernels_.counter(rank.number, instr), instr.amount);
    });
  }

  void add(size_t number, RankProgram& program) {
    Rank& rank = ranks_.emplace_back(
        Rank{number, &program, {}, std::vector<uint32_t>(program.streams.size(), 0), {}, {}, {}});
    rank.gemms.resize(program.gemms.size());
    rank.moves.resize(program.moves.size());
    for (uint32_t s = 0; s < program.streams.size(); ++s) {
      rank.priority.push_back(s);
      num_left_ += rank.steps(s).size();
      for (const Step& step : rank.steps(s)) {
        if (step.kind == StepKind::collective) ++absent_from(rank, step);
        if (is_kernel(step)) find_waits(rank, step);
        for_each_own(rank, step, [&](size_t at, int64_t amount) { own_missing_[at] += amount; });
      }
    }
    std::stable_sort(rank.priority.begin(), rank.priority.end(),
                     [&](uint32_t a, uint32_t b) { return rank.is_comm(a) > rank.is_comm(b); });
  }

  int& absent_from(const Rank& rank, const Step& step) {
    const Instr& instr = step.instr(plan_);
    return absent_[{instr.id, plan_.joined_by(instr, static_cast<int>(rank.number)).first}];
  }

  void find_waits(Rank& rank, const Step& step) {
    KernelRun& kernel = rank.kernel(step);
    for_each_own(rank, step, [&](size_t at, int64_t amount) { by_kernel_[at] += amount; });
    for_each_sync(rank, step, [&](const Instr& instr) {
      if (instr.op != Opcode::wait || instr.lag > 0) return;
      const size_t at = kernels_.counter(rank.number, instr);
      kernel.waits.push_back({at, by_kernel_[at]});
    });
    for_each_own(rank, step, [&](size_t at, int64_t) { by_kernel_[at] = 0; });
  }

  // Whether anything was enqueued.
  bool pass(Try how) {
    bool moved = false;
    for (Rank& rank : ranks_) {
      for (const uint32_t s : rank.priority) {
        while (rank.at[s] < rank.steps(s).size() && event_is_there(rank, s) &&
               (how == Try::forced || can_follow(rank, s, how))) {
          enqueue(rank, s);
          moved = true;
          if (how == Try::forced) return true;
        }
        if (moved && how == Try::waits) return true;
      }
    }
    return moved;
  }

  void enqueue(Rank& rank, uint32_t s) {
    const uint32_t i = rank.at[s]++;
    const Step& step = rank.steps(s)[i];
    rank.program->order.push_back({s, i});
    --num_left_;
    for_each_own(rank, step, [&](size_t at, int64_t amount) { own_missing_[at] -= amount; });
    if (step.kind == StepKind::record) rank.recorded.insert(step.index);
    if (step.kind == StepKind::collective) --absent_from(rank, step);
    if (step.kind == StepKind::notify) kernels_.tell(step.instr(plan_));
    if (!is_kernel(step)) return;
    kernels_.start(rank.number, rank.blocks(step), rank.kernel(step).progress);
  }

  static bool event_is_there(const Rank& rank, uint32_t s) {
    const Step& step = rank.steps(s)[rank.at[s]];
    return step.kind != StepKind::await || rank.recorded.count(step.index) > 0;
  }

  // Whether the next step of a stream can stand behind what all ranks have enqueued. A kernel that
  // waits holds up nobody but the steps behind it.
  bool can_follow(Rank& rank, uint32_t s, Try how) {
    const uint32_t i = rank.at[s];
    if (i > 0 && !has_ended(rank, rank.steps(s)[i - 1])) return false;
    const Step& step = rank.steps(s)[i];
    if (step.kind == StepKind::wait) {
      const bool is_compute = rank.program->streams[s].kind == LaneKind::compute;
      return (!is_compute || how == Try::waits) &&
             kernels_.has_come(rank.number, step.instr(plan_));
    }
    // Movers wait inside a kernel that has its own SMs: they come first.
    return !is_kernel(step) || (rank.is_comm(s) && i == 0) || own_are_made(rank.kernel(step));
  }

  // Of a step that is enqueued: with what all ranks have.
  bool has_ended(Rank& rank, const Step& step) {
    if (step.kind == StepKind::collective) return absent_from(rank, step) == 0;
    return !is_kernel(step) || rank.kernel(step).progress.has_ended;
  }

  // Whether the rank itself has enqueued all its notifies of what a kernel awaits, but for the
  // kernel's own.
  bool own_are_made(KernelRun& kernel) const {
    for (; kernel.made < kernel.waits.size(); ++kernel.made) {
      const KernelRun::Wait& wait = kernel.waits[kernel.made];
      if (own_missing_[wait.counter] > wait.own) return false;
    }
    return true;
  }

  const Plan& plan_;
  EnqueuedKernels kernels_;
  std::vector<Rank> ranks_;
  // By counter: what the rank's own notifies add that are not enqueued; and those of the kernel
  // that is looked at.
  std::vector<int64_t> own_missing_, by_kernel_;
  // By collective and the first rank that joins: ranks that have not enqueued it.
  std::map<std::pair<int32_t, int>, int> absent_;
  size_t num_left_ = 0;  // steps
};

}  // namespace

void order_steps(const Plan& plan, std::vector<RankProgram>& programs) {
  const auto has_one_stream = [](const RankProgram& p) { return p.streams.size() == 1; };
  if (!std::all_of(programs.begin(), programs.end(), has_one_stream)) {
    return Ordering(plan, programs).run();
  }
  for (RankProgram& program : programs) {
    for (uint32_t i = 0; i < program.streams[0].steps.size(); ++i) program.order.push_back({0, i});
  }
}

}  // namespace stretto::cuda
