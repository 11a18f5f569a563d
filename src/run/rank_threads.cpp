#include "run/rank_threads.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <future>
#include <latch>

#include "gpu/beside_captures.h"
#include "stretto/error.h"

namespace stretto::runtime {

void on_threads(int count, const std::function<void(int i)>& begin,
                const std::function<void(int i)>& work) {
  std::latch begun(count);
  std::atomic<bool> has_failed = false;
  const auto run = [&](int i) {
    try {
      begin(i);
    } catch (...) {
      has_failed = true;
      begun.count_down();
      throw;
    }
    begun.arrive_and_wait();
    if (!has_failed) work(i);
  };
  std::vector<std::future<void>> ends;
  for (int i = 0; i < count; ++i) {
    try {
      ends.push_back(std::async(std::launch::async, run, i));
    } catch (...) {  // too many threads: the futures wait for those that there are
      has_failed = true;
      begun.count_down(count - i);
      throw;
    }
  }
  for (const std::future<void>& end : ends) end.wait();
  for (std::future<void>& end : ends) end.get();  // throws what the first to fail threw
}

void on_rank_threads(const fabric::Fabric& fabric, const std::function<void(int rank)>& work) {
  const int first = fabric.first_rank();
  on_threads(
      fabric.num_local(), [&](int i) { fabric.device(first + i).make_current(); },
      [&](int i) {
        const cuda::BesideCaptures beside;  // whatever the thread that waits for these captures
        work(first + i);
      });
}

namespace {

// What each process gave, by process.
std::vector<std::vector<double>> gathered(fabric::Fabric& fabric, std::string_view what,
                                          const std::vector<double>& mine) {
  const size_t num_bytes = mine.size() * sizeof(double);
  std::vector<std::vector<double>> all;
  for (const std::string& bytes : fabric.group().all_gather(
           what, std::string_view(reinterpret_cast<const char*>(mine.data()), num_bytes))) {
    if (bytes.size() != num_bytes) {
      throw SystemError("the processes of this job do not measure the same: start one program");
    }
    std::memcpy(all.emplace_back(mine.size()).data(), bytes.data(), num_bytes);
  }
  return all;
}

}  // namespace

std::vector<double> largest(fabric::Fabric& fabric, std::string_view what,
                            std::vector<double> mine) {
  if (fabric.group().size() == 1) return mine;
  for (const std::vector<double>& one : gathered(fabric, what, mine)) {
    for (size_t i = 0; i < mine.size(); ++i) mine[i] = std::max(mine[i], one[i]);
  }
  return mine;
}

std::vector<double> mean(fabric::Fabric& fabric, std::string_view what, std::vector<double> mine) {
  if (fabric.group().size() == 1) return mine;
  const auto all = gathered(fabric, what, mine);
  std::fill(mine.begin(), mine.end(), 0.0);
  for (const std::vector<double>& one : all) {
    for (size_t i = 0; i < mine.size(); ++i) mine[i] += one[i] / static_cast<double>(all.size());
  }
  return mine;
}

}  // namespace stretto::runtime
