#include "measure/random_tensors.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numbers>
#include <random>

#include "emu/shared_reference.h"
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

// Blocks of a type, by how large their values are.
class Blocks {
 public:
  const std::vector<uint8_t>& of(DType dtype, float scale) {
    std::vector<uint8_t>& block = blocks_[{dtype, scale}];
    if (!block.empty()) return block;
    std::vector<float> values = values_;
    for (float& value : values) value *= scale;
    block.resize(kBlock * static_cast<size_t>(num_bytes(dtype)));
    tasks::round_elements(dtype, values.data(), block.data(), kBlock);
    return block;
  }

 private:
  const std::vector<float> values_ = normal_values();
  std::map<std::pair<DType, float>, std::vector<uint8_t>> blocks_;
};

void fill(cuda::DeviceMemory& memory, const Operator& op, int tensor, int rank, Blocks& blocks,
          const cuda::Stream& stream) {
  const Tensor& of = op.tensor(tensor);
  if (is_index(of.dtype) && of.stage < 0) {
    const auto indices = SharedReference(0).input(op, InputData{}, tensor, rank);
    if (!indices->empty()) memory.upload(indices->data(), indices->size());
    return;
  }
  const bool is_one = op.only_product() != nullptr;
  const DType dtype = is_index(of.dtype) ? op.dtype : of.dtype;  // results are written over
  spread(memory, blocks.of(dtype, is_one ? 1 : of.values.scale), stream);
}

}  // namespace

RandomTensors::RandomTensors(const Operator& op, fabric::Fabric& fabric)
    : fabric_(fabric), ranks_(static_cast<size_t>(fabric.num_local())) {
  Blocks blocks;
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
      fill(memory, op, tensors[t].tensor, rank, blocks, stream);
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
