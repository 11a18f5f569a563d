#include "streams/run_counts.h"

namespace stretto::runtime {

device::uint64* RunCounts::add(int blocks) {
  words_.push_back(cuda::upload(std::vector<uint64_t>(static_cast<size_t>(blocks), 0)));
  return words_.back().as<device::uint64>();
}

void RunCounts::restart() {
  for (cuda::DeviceMemory& words : words_) {
    const std::vector<uint64_t> zeros(words.num_bytes() / sizeof(uint64_t), 0);
    words.upload(zeros.data(), words.num_bytes());
  }
}

std::vector<uint64_t> RunCounts::read() const {
  std::vector<uint64_t> all;
  for (const cuda::DeviceMemory& words : words_) {
    const size_t first = all.size();
    all.resize(first + words.num_bytes() / sizeof(uint64_t));
    words.download(all.data() + first, words.num_bytes());
  }
  return all;
}

}  // namespace stretto::runtime
