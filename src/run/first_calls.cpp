#include "run/first_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <string>
#include <thread>

#include "run/run_end.h"
#include "stretto/error.h"

namespace stretto::runtime {

using Clock = std::chrono::steady_clock;

std::vector<bool> ended_within(size_t count, std::chrono::milliseconds limit,
                               const std::function<bool(size_t i)>& has_ended) {
  constexpr std::chrono::microseconds kBetweenLooks(50);
  const auto end = Clock::now() + limit;
  std::vector<bool> ended(count);
  for (;;) {
    const bool is_over = Clock::now() > end;  // what ends after this is seen once more
    for (size_t i = 0; i < count; ++i) ended[i] = ended[i] || has_ended(i);
    if (is_over || std::find(ended.begin(), ended.end(), false) == ended.end()) return ended;
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

std::string describe_unended(std::string_view what, const std::vector<bool>& ended,
                             std::chrono::milliseconds limit) {
  std::vector<int> waiting, absent;
  for (size_t rank = 0; rank < ended.size(); ++rank) {
    (ended[rank] ? absent : waiting).push_back(static_cast<int>(rank));
  }
  if (waiting.empty()) return "";
  const std::string waited = fmt::format("{} waited {:g} s in {}", ranks_of(waiting),
                                         static_cast<double>(limit.count()) / 1e3, what);
  if (!absent.empty()) return fmt::format("{}, to which {} did not come", waited, ranks_of(absent));
  return waited + ", which did not end; none is seen to be behind the others";
}

namespace {

// Of every rank of the job, and why this process does not know.
struct Ends {
  std::vector<bool> ended;
  std::string failure;
};

Ends ends_of_all(fabric::Fabric& fabric, std::string_view what, std::chrono::milliseconds limit,
                 const std::function<bool(int rank)>& is_idle) {
  Ends ends;
  std::string mine(static_cast<size_t>(fabric.num_local()), 'n');
  try {
    const std::vector<bool> here = ended_within(mine.size(), limit, [&](size_t i) {
      const int rank = fabric.first_rank() + static_cast<int>(i);
      fabric.device(rank).make_current();
      return is_idle(rank);
    });
    for (size_t i = 0; i < mine.size(); ++i) mine[i] = here[i] ? 'y' : 'n';
  } catch (const SystemError& error) {
    ends.failure = error.what();
  }
  for (const std::string& theirs : fabric.group().all_gather(what, mine)) {
    for (const char one : theirs) ends.ended.push_back(one == 'y');
  }
  return ends;
}

}  // namespace

void make_calls(fabric::Fabric& fabric, fabric::Communicators* nccl, std::string_view what,
                std::chrono::milliseconds limit, const std::function<void()>& calls,
                const std::function<bool(int rank)>& is_idle) {
  try {
    fabric.group().together(what, calls);
    const Ends ends = ends_of_all(fabric, what, limit, is_idle);
    const std::string problem = describe_unended(what, ends.ended, limit);
    if (!problem.empty()) throw SystemError(ends.failure.empty() ? problem : ends.failure);
  } catch (const std::exception&) {
    if (nccl != nullptr) nccl->abort();
    throw;
  }
}

}  // namespace stretto::runtime
