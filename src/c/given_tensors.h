// The tensors of a call as other languages give them, and what those of a call like it are.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace stretto::c {

inline constexpr size_t kMostTensors = 32;

// DLPack's, of version 1.
struct DlTensor {
  void* data;
  int32_t device_type, device_id;
  int32_t num_dims;
  uint8_t code, bits;
  uint16_t lanes;
  const int64_t* shape;
  const int64_t* strides;  // null: contiguous
  uint64_t byte_offset;

  uint64_t address() const { return reinterpret_cast<uint64_t>(data) + byte_offset; }
  std::span<const int64_t> sizes() const { return {shape, static_cast<size_t>(num_dims)}; }
};

inline bool is_contiguous(const DlTensor& tensor) {
  if (tensor.strides == nullptr) return true;
  int64_t step = 1;
  for (int32_t i = tensor.num_dims; i-- > 0;) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != step) return false;
    step *= tensor.shape[i];
  }
  return true;
}

// What a tensor of every such call is, wherever it lies.
struct Kind {
  explicit Kind(const DlTensor& tensor)
      : first(tensor), shape(tensor.sizes().begin(), tensor.sizes().end()) {
    num_bytes = uint64_t{tensor.bits} * tensor.lanes / 8;
    for (const int64_t size : shape) num_bytes *= static_cast<uint64_t>(size);
  }

  bool is_of(const DlTensor& tensor) const {
    return tensor.device_type == first.device_type && tensor.device_id == first.device_id &&
           tensor.code == first.code && tensor.bits == first.bits && tensor.lanes == first.lanes &&
           std::ranges::equal(shape, tensor.sizes()) && is_contiguous(tensor);
  }

  DlTensor first;  // but for what it points to
  std::vector<int64_t> shape;
  uint64_t num_bytes;
};

// The tensors of a list, as they are now.
class Tensors {
 public:
  void add(const DlTensor& tensor) { all_[count_++] = tensor; }
  bool is_full() const { return count_ == kMostTensors; }
  size_t size() const { return count_; }
  const DlTensor& operator[](size_t index) const { return all_[index]; }
  std::span<const DlTensor> all() const { return {all_.data(), count_}; }

  bool are(const std::vector<Kind>& kinds) const {
    return std::ranges::equal(
        kinds, all(), [](const Kind& kind, const DlTensor& one) { return kind.is_of(one); });
  }
  // Alike for tensors of the same types and sizes.
  uint64_t hash() const {
    uint64_t hash = count_;
    const auto mix = [&](uint64_t value) { hash = (hash ^ value) * 0x100000001b3; };
    for (const DlTensor& one : all()) {
      mix(uint64_t{one.code} << 8 | one.bits);
      for (const int64_t size : one.sizes()) mix(static_cast<uint64_t>(size));
    }
    return hash;
  }

 private:
  std::array<DlTensor, kMostTensors> all_;
  size_t count_ = 0;
};

}  // namespace stretto::c
