// Words of the host's memory that kernels write and the host reads, without a copy or a wait.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stretto::cuda {

// All are 0. Some GPU is current when they are made; kernels of every GPU of the process reach them
// at the host's address.
class HostWords {
 public:
  HostWords() = default;
  explicit HostWords(size_t count);
  ~HostWords();
  HostWords(HostWords&& other) noexcept;
  HostWords& operator=(HostWords&& other) noexcept;

  uint32_t* at(size_t word) const { return words_ + word; }
  bool any() const;
  void clear();

 private:
  uint32_t* words_ = nullptr;
  size_t count_ = 0;
};

}  // namespace stretto::cuda
