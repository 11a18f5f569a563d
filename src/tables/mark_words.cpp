#include "tables/mark_words.h"

namespace stretto::cuda {

MarkWords::MarkWords(size_t blocks, size_t tasks)
    : words_(upload(std::vector<uint64_t>(blocks + tasks * device::kMarks, 0))), blocks_(blocks) {}

device::TaskMarks MarkWords::view() const {
  auto* words = words_.as<device::uint64>();
  if (words == nullptr) return {};
  return {words, words + blocks_};
}

std::vector<uint64_t> MarkWords::read() const {
  std::vector<uint64_t> words(words_.num_bytes() / sizeof(uint64_t));
  if (!words.empty()) words_.download(words.data(), words_.num_bytes());
  return words;
}

}  // namespace stretto::cuda
