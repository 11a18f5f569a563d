#include "measure/run_graphs.h"

#include <algorithm>
#include <barrier>
#include <exception>

#include "run/first_calls.h"
#include "run/rank_threads.h"
#include "stretto/error.h"

namespace stretto::runtime {
namespace {

// Of a library's calls, which have no deadline of their own; a turn is far shorter.
constexpr std::chrono::seconds kGraphsTimeout(120);

}  // namespace

RunGraphs::RunGraphs(fabric::Fabric& fabric, std::vector<const cuda::Stream*> streams, int runs,
                     const Enqueue& enqueue, fabric::Communicators* nccl)
    : fabric_(fabric), nccl_(nccl), runs_(runs), ranks_(static_cast<size_t>(fabric.num_local())) {
  for (size_t i = 0; i < ranks_.size(); ++i) ranks_[i].stream = streams[i];
  capture(enqueue);
}

RunGraphs::RunGraphs(PlanRunner& runner, fabric::Fabric& fabric, int runs)
    : RunGraphs(runner, fabric, runs, [&](int rank, const cuda::Stream& stream) {
        runner.enqueue(rank, stream.handle());
      }) {}

RunGraphs::RunGraphs(PlanRunner& runner, fabric::Fabric& fabric, int runs, const Enqueue& enqueue)
    : fabric_(fabric),
      runner_(&runner),
      runs_(runs),
      ranks_(static_cast<size_t>(fabric.num_local())) {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    ranks_[i].stream = &runner.stream(fabric.first_rank() + static_cast<int>(i));
  }
  capture(enqueue);
}

void RunGraphs::capture(const Enqueue& enqueue) {
  fabric_.group().together("capturing a plan's graphs", [&] {
    on_rank_threads(fabric_, [&](int rank) {
      Rank& mine = ranks_[static_cast<size_t>(rank - fabric_.first_rank())];
      mine.graph = std::make_unique<cuda::Graph>(*mine.stream, [&] {
        for (int run = 0; run < runs_; ++run) enqueue(rank, *mine.stream);
      });
      mine.start = std::make_unique<cuda::Event>();
      mine.stop = std::make_unique<cuda::Event>();
    });
  });
}

RunGraphs::~RunGraphs() {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    cuda::driver().context_set(
        fabric_.device(fabric_.first_rank() + static_cast<int>(i)).context());
    ranks_[i] = Rank();
  }
}

const cuda::Stream& RunGraphs::stream(int rank) const {
  return *ranks_[static_cast<size_t>(rank - fabric_.first_rank())].stream;
}

void RunGraphs::launch(int rank) const {
  const Rank& mine = ranks_[static_cast<size_t>(rank - fabric_.first_rank())];
  mine.graph->launch(*mine.stream);
}

double RunGraphs::time_us(int launches) const {
  return time_behind(
      [&](int, const Rank& mine) {
        for (int i = 0; i < launches; ++i) mine.graph->launch(*mine.stream);
      },
      launches);
}

double RunGraphs::time_us_after(const Enqueue& before) const {
  return time_behind([&](int rank, const Rank& mine) { before(rank, *mine.stream); }, 1);
}

double RunGraphs::time_behind(const std::function<void(int rank, const Rank& mine)>& ahead,
                              int launches) const {
  if (fabric_.group().size() > 1) fabric_.barrier();
  std::barrier together(fabric_.num_local());
  const auto enqueue = [&] {
    on_rank_threads(fabric_, [&](int rank) {
      const Rank& mine = ranks_[static_cast<size_t>(rank - fabric_.first_rank())];
      together.arrive_and_wait();
      ahead(rank, mine);
      mine.start->record(*mine.stream);
      for (int i = 0; i < launches; ++i) mine.graph->launch(*mine.stream);
      mine.stop->record(*mine.stream);
    });
  };
  std::exception_ptr refused;  // by the driver, maybe here alone
  if (runner_ == nullptr) {
    make_calls(fabric_, nccl_, "graphs of a library's calls", kGraphsTimeout, enqueue,
               [&](int rank) { return stream(rank).idle(); });
  } else {
    try {
      enqueue();
    } catch (const SystemError&) {
      refused = std::current_exception();
    }
    runner_->finish();  // throws on all processes, or on none
  }
  double longest = 0;
  fabric_.group().together("the end of a run's graphs", [&] {
    if (refused) std::rethrow_exception(refused);
    for (size_t i = 0; i < ranks_.size(); ++i) {
      const Rank& mine = ranks_[i];
      fabric_.device(fabric_.first_rank() + static_cast<int>(i)).make_current();
      mine.stream->synchronize();
      longest = std::max(longest, mine.stop->elapsed_us_since(*mine.start) / (launches * runs_));
    }
  });
  return largest(fabric_, "the time of a run", {longest}).front();
}

}  // namespace stretto::runtime
