#include "measure/random_tensors.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>

#include "tasks/elements.h"

namespace stretto::runtime {
namespace {

using cuda::check;
using cuda::driver;

// Long enough that a tile of a product meets few values twice.
constexpr size_t kBlock = size_t{1} << 18;

// Standard normal values, by Box and Muller.
std::vector<float> normal_values() {
  std::mt19937 random(20);
  const auto uniform = [&] { return (static_cast<double>(random()) + 1) / 4294967297.0; };
  std::vector<float> values(kBlock);
  for (size_t i = 0; i < kBlock; i += 2) {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    const double angle = 2 * std::numbers::pi * uniform();
    values[i] = static_cast<float>(radius * std::cos(angle));
    values[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
  return values;
}

// The block's bytes over all of `memory`, each copy as long as what is there.
void spread(cuda::DeviceMemory& memory, const std::vector<uint8_t>& block,
            const cuda::Stream& stream) {
  size_t there = std::min(block.size(), memory.num_bytes());
  memory.upload(block.data(), there);
  while (there < memory.num_bytes()) {
    const size_t more = std::min(there, memory.num_bytes() - there);
    check(driver().copy_async(memory.address() + there, memory.address(), more, stream.handle()),
          "copy random values");
    there += more;
  }
}

}  // namespace

RandomTensors::RandomTensors(const Operator& op, fabric::Fabric& fabric)
    : fabric_(fabric), ranks_(static_cast<size_t>(fabric.num_local())) {
  const std::vector<float> values = normal_values();
  std::vector<uint8_t> block(kBlock * static_cast<size_t>(num_bytes(op.dtype)));
  tasks::round_elements(op.dtype, values.data(), block.data(), kBlock);
  const std::vector<CallerTensor> tensors = caller_tensors(op);
  for (const CallerTensor& one : tensors) names_.push_back(op.tensor(one.tensor).name);
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const int rank = fabric.first_rank() + static_cast<int>(i);
    fabric.device(rank).make_current();
    const cuda::Stream stream;
    for (size_t t = 0; t < tensors.size(); ++t) {
      const Slice slice = slice_of(op, tensors[t].tensor, tensors[t].held, rank);
      const int64_t bytes =
          slice.rows() * slice.cols() * num_bytes(op.tensor(tensors[t].tensor).dtype);
      auto& memory =
          ranks_[i].memory.emplace_back(std::max<size_t>(static_cast<size_t>(bytes), 16));
      ranks_[i].tensors.push_back({names_[t], memory.address()});
      spread(memory, block, stream);
    }
    stream.synchronize();
  }
}

size_t RandomTensors::bytes_of(const Operator& op) {
  size_t bytes = 0;
  for (const CallerTensor& one : caller_tensors(op)) {
    const Slice longest = slice_of(op, one.tensor, one.held, 0);
    const DType dtype = op.tensor(one.tensor).dtype;
    bytes += static_cast<size_t>(longest.rows() * longest.cols() * num_bytes(dtype));
  }
  return bytes;
}

RandomTensors::~RandomTensors() {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    driver().context_set(fabric_.device(fabric_.first_rank() + static_cast<int>(i)).context());
    ranks_[i] = Rank();
  }
}

}  // namespace stretto::runtime
