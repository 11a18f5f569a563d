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

std::vector<double> largest(fabric::Fabric& fabric, std::string_view what,
                            std::vector<double> mine) {
  if (fabric.group().size() == 1) return mine;
  const size_t num_bytes = mine.size() * sizeof(double);
  const auto all = fabric.group().all_gather(
      what, std::string_view(reinterpret_cast<const char*>(mine.data()), num_bytes));
  for (const std::string& bytes : all) {
    if (bytes.size() != num_bytes) {
      throw SystemError("the processes of this job do not measure the same: start one program");
    }
    for (size_t i = 0; i < mine.size(); ++i) {
      double value = 0;
      std::memcpy(&value, bytes.data() + i * sizeof(double), sizeof(double));
      mine[i] = std::max(mine[i], value);
    }
  }
  return mine;
}

}  // namespace stretto::runtime
