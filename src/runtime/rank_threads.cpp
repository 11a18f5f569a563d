#include "runtime/rank_threads.h"

#include <algorithm>
#include <cstring>
#include <future>

#include "stretto/error.h"

namespace stretto::runtime {

void on_rank_threads(const fabric::Fabric& fabric, const std::function<void(int)>& work) {
  std::vector<std::future<void>> ends;
  for (int i = 0; i < fabric.num_local(); ++i) {
    ends.push_back(std::async(std::launch::async, [&, rank = fabric.first_rank() + i] {
      fabric.device(rank).make_current();
      work(rank);
    }));
  }
  for (const std::future<void>& end : ends) end.wait();
  for (std::future<void>& end : ends) end.get();  // throws what the first to fail threw
}

namespace {

// By process, what each gave.
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
