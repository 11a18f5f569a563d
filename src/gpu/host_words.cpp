#include "gpu/host_words.h"

#include <atomic>
#include <utility>

#include "gpu/driver_api.h"

namespace stretto::cuda {

HostWords::HostWords(size_t count) : count_(count) {
  constexpr unsigned kPortable = 1, kMapped = 2;
  void* at = nullptr;
  check(driver().host_alloc(&at, count * sizeof(uint32_t), kPortable | kMapped),
        "allocate words that kernels write");
  words_ = static_cast<uint32_t*>(at);
  clear();
}

HostWords::~HostWords() {
  if (words_ != nullptr) driver().host_free(words_);
}

HostWords::HostWords(HostWords&& other) noexcept
    : words_(std::exchange(other.words_, nullptr)), count_(std::exchange(other.count_, 0)) {}

HostWords& HostWords::operator=(HostWords&& other) noexcept {
  std::swap(words_, other.words_);
  std::swap(count_, other.count_);
  return *this;
}

bool HostWords::any() const {
  for (size_t i = 0; i < count_; ++i) {
    if (std::atomic_ref(words_[i]).load(std::memory_order_acquire) != 0) return true;
  }
  return false;
}

void HostWords::clear() {
  for (size_t i = 0; i < count_; ++i) std::atomic_ref(words_[i]).store(0);
}

}  // namespace stretto::cuda
