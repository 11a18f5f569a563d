#include "measure/bench_tensors.h"

#include <algorithm>

#include "measure/buffer_pieces.h"
#include "measure/graph_reference.h"
#include "run/rank_threads.h"
#include "stretto/error.h"

namespace stretto::runtime {
namespace {

using cuda::check;
using cuda::DeviceMemory;
using cuda::driver;

constexpr size_t kFlushBytes = size_t{256} << 20;  // several times any L2 cache

size_t bytes_of(int64_t rows, int64_t columns, int size) {
  return static_cast<size_t>(std::max<int64_t>(1, rows) * columns * size);
}

// A plan may have given NCCL up before.
const fabric::Communicators& connected(fabric::Fabric& fabric) {
  fabric::Communicators& nccl = fabric.communicators();
  if (!nccl.renew(fabric.group())) throw SystemError(fabric::kStillHeld);
  return nccl;
}

const Buffer& buffer_of(const PlanRunner& runner, const std::string& tensor) {
  return runner.plan().buffers[*runner.plan().find_buffer(tensor)];
}

}  // namespace

BenchTensors::BenchTensors(const Operator& op, fabric::Fabric& fabric,
                           const cuda::Compiler& compiler)
    : op_(op),
      fabric_(fabric),
      nccl_(connected(fabric)),
      nccl_generation_(nccl_.generation()),
      ranks_(static_cast<size_t>(fabric.num_local())) {
  fabric.group().together("preparing a benchmark's tensors", [&] {
    on_rank_threads(fabric_, [&](int rank) { prepare(rank, compiler); });
  });
}

BenchTensors::~BenchTensors() {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    driver().context_set(fabric_.device(fabric_.first_rank() + static_cast<int>(i)).context());
    ranks_[i] = Rank();
  }
}

void BenchTensors::require_same_nccl() const {
  if (nccl_.generation() == nccl_generation_ && !nccl_.is_aborted()) return;
  throw SystemError(
      "a collective of NCCL in some plan did not end, so the library's own times behind it are "
      "worth nothing: leave that plan out");
}

std::vector<const cuda::Stream*> BenchTensors::streams() const {
  std::vector<const cuda::Stream*> streams;
  for (const Rank& rank : ranks_) streams.push_back(rank.stream.get());
  return streams;
}

void BenchTensors::prepare(int rank, const cuda::Compiler& compiler) {
  Rank& mine = of(rank);
  mine.stream = std::make_unique<cuda::Stream>();
  mine.data = std::make_unique<cuda::TestData>(fabric_.device(rank), compiler);
  mine.cublas = std::make_unique<cuda::Cublas>(*mine.stream);
  for (size_t i = 0; i < op_.tensors.size(); ++i) {
    const Tensor& tensor = op_.tensors[i];
    DeviceMemory& memory = mine.inputs.emplace_back();
    if (tensor.stage >= 0) continue;
    const int id = static_cast<int>(i);
    // NCCL gathers equal parts: the first rank's is the longest.
    const Slice longest = slice_of(op_, id, tensor.held, 0);
    memory = DeviceMemory(bytes_of(longest.rows(), longest.cols(), num_bytes(tensor.dtype)));
    fill_input_slice(op_, id, rank, *mine.data, *mine.stream, memory.address());
  }
  mine.flush = DeviceMemory(kFlushBytes);
  mine.word = DeviceMemory(256);
  mine.references = reference_outputs(op_, rank, *mine.data, *mine.cublas, *mine.stream);
  mine.stream->synchronize();
}

void BenchTensors::copy_inputs(const PlanRunner& runner) const {
  for (int i = 0; i < fabric_.num_local(); ++i) {
    const int rank = fabric_.first_rank() + i;
    fabric_.device(rank).make_current();
    const Rank& mine = of(rank);
    for (size_t t = 0; t < op_.tensors.size(); ++t) {
      const Tensor& tensor = op_.tensors[t];
      if (tensor.stage >= 0) continue;
      const Slice slice = slice_of(op_, static_cast<int>(t), tensor.held, rank);
      if (slice.rows() == 0) continue;
      for_each_piece(buffer_of(runner, tensor.name), rank,
                     bytes_of(slice.rows(), slice.cols(), num_bytes(tensor.dtype)),
                     [&](size_t to, size_t from, size_t bytes) {
                       check(driver().copy_async(runner.buffer(tensor.name, rank) + to,
                                                 mine.inputs[t].address() + from, bytes,
                                                 mine.stream->handle()),
                             "copy an input");
                     });
    }
    mine.stream->synchronize();
  }
}

double BenchTensors::error_of(const PlanRunner& runner) const {
  double worst = 0;
  for (int i = 0; i < fabric_.num_local(); ++i) {
    const int rank = fabric_.first_rank() + i;
    fabric_.device(rank).make_current();
    const Rank& mine = of(rank);
    for (size_t o = 0; o < op_.outputs.size(); ++o) {
      const OperatorOutput& output = op_.outputs[o];
      const Slice slice = slice_of(op_, output.tensor, output.held, rank);
      const int64_t count = slice.rows() * slice.cols();
      if (count == 0) continue;
      const std::string& name = op_.tensor(output.tensor).name;
      const cuda::DevicePtr out = runner.buffer(name, rank);
      const auto num_bytes_out = static_cast<size_t>(count * num_bytes(op_.dtype));
      const DeviceMemory packed(num_bytes_out);
      for_each_piece(
          buffer_of(runner, name), rank, num_bytes_out, [&](size_t from, size_t to, size_t bytes) {
            const cuda::StreamHandle stream = mine.stream->handle();
            check(driver().copy_async(packed.address() + to, out + from, bytes, stream),
                  "copy an output");
            check(driver().fill_bytes(out + from, 0xff, bytes, stream), "poison an output");
          });
      worst = std::max(
          worst, cuda::relative_error(mine.data->compare(*mine.stream, packed.address(), op_.dtype,
                                                         mine.references[o].address(), count)));
    }
    mine.stream->synchronize();
  }
  return largest(fabric_, "the error of a run", {worst}).front();
}

void BenchTensors::enqueue_cold_start(int rank, const cuda::Stream& stream) const {
  const Rank& mine = of(rank);
  check(driver().fill_bytes(mine.flush.address(), 1, kFlushBytes, stream.handle()),
        "empty the L2 cache");
  nccl_.all_reduce(rank, stream, mine.word.address(), mine.word.address(), 1, DType::fp32);
}

}  // namespace stretto::runtime
