#include "lang/argument_checks.h"

#include <fmt/format.h>

#include "stretto/error.h"

namespace stretto::cuda {
namespace {

bool overlap(const Memory& a, const Memory& b) {
  const auto first = reinterpret_cast<uint64_t>(a.at);
  const auto second = reinterpret_cast<uint64_t>(b.at);
  if (a.num_bytes == 0 || b.num_bytes == 0) return false;
  if (first == second && a.in_place != 0 && a.in_place == b.in_place) return false;
  return first < second + b.num_bytes && second < first + a.num_bytes;
}

bool within(const Memory& memory, const Heap& heap) {
  const uint64_t first = reinterpret_cast<uint64_t>(memory.at);
  const uint64_t begin = reinterpret_cast<uint64_t>(heap.at);
  return first >= begin && memory.num_bytes <= heap.num_bytes &&
         first - begin <= heap.num_bytes - memory.num_bytes;
}

}  // namespace

void check_memory(const char* kernel, const std::vector<Memory>& all, const Heap& heap) {
  for (const Memory& memory : all) {
    if (memory.num_bytes == 0) continue;
    if (memory.at == nullptr) {
      throw UsageError(fmt::format("{}: '{}' is null; {} bytes are needed", kernel, memory.name,
                                   memory.num_bytes));
    }
    if (reinterpret_cast<uint64_t>(memory.at) % memory.alignment != 0) {
      throw UsageError(fmt::format("{}: '{}' at {} is not aligned to {} bytes", kernel, memory.name,
                                   memory.at, memory.alignment));
    }
    if (memory.symmetric && !within(memory, heap)) {
      throw UsageError(fmt::format(
          "{}: '{}' at {}, {} bytes, is not in the symmetric heap of {} bytes at {}: take memory "
          "that was allocated from it with that size",
          kernel, memory.name, memory.at, memory.num_bytes, heap.num_bytes, heap.at));
    }
  }
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = i + 1; j < all.size(); ++j) {
      if (!overlap(all[i], all[j])) continue;
      throw UsageError(fmt::format("{}: '{}' and '{}' overlap; give each memory of its own", kernel,
                                   all[i].name, all[j].name));
    }
  }
}

void check_most(const char* kernel, const char* what, uint64_t number, uint64_t row_vectors) {
  if (number <= kMost && row_vectors <= kMost) return;
  throw UsageError(fmt::format("{}: {} {} of {} vectors; at most {} of each are served", kernel,
                               number, what, row_vectors, kMost));
}

}  // namespace stretto::cuda
