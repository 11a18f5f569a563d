#include "measure/bench_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "gpu/host_copies.h"
#include "measure/buffer_pieces.h"
#include "measure/expert_rows.h"
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
fabric::Communicators* connected(fabric::Fabric& fabric) {
  if (fabric.device(fabric.first_rank()).ranks() > 1) return nullptr;
  fabric::Communicators& nccl = fabric.communicators();
  if (!nccl.renew(fabric.group())) throw SystemError(fabric::kStillHeld);
  return &nccl;
}

const Buffer& buffer_of(const PlanRunner& runner, const std::string& tensor) {
  return runner.plan().buffers[*runner.plan().find_buffer(tensor)];
}

}  // namespace

double most_error(const Operator& op) {
  const auto products =
      std::count_if(op.segments.begin(), op.segments.end(),
                    [](const OperatorSegment& segment) { return segment.product.has_value(); });
  return kMostError * std::sqrt(static_cast<double>(std::max<std::ptrdiff_t>(1, products)));
}

BenchTensors::BenchTensors(const Operator& op, fabric::Fabric& fabric,
                           const cuda::Compiler& compiler, const Routing& routing)
    : op_(op),
      fabric_(fabric),
      nccl_(connected(fabric)),
      nccl_generation_(nccl_ == nullptr ? 0 : nccl_->generation()),
      ranks_(static_cast<size_t>(fabric.num_local())),
      input_data_(bench_data(routing)),
      check_(chooses(op) ? std::make_unique<RowCheck>(op, input_data_) : nullptr) {
  fabric.group().together("preparing a benchmark's tensors", [&] {
    on_rank_threads(fabric_, [&](int rank) { prepare(rank, compiler); });
    if (check_ == nullptr) return;
    for (int i = 0; i < fabric_.num_local(); ++i) {
      const int rank = fabric_.first_rank() + i;
      fabric_.device(rank).make_current();
      for (size_t t = 0; t < op_.tensors.size(); ++t) {
        if (op_.tensors[t].stage >= 0) continue;
        const auto values = check_->input(static_cast<int>(t), rank);
        cuda::copy_to_gpu(input(rank, static_cast<int>(t)), values->data(), values->size());
      }
    }
  });
}

BenchTensors::~BenchTensors() {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    driver().context_set(fabric_.device(fabric_.first_rank() + static_cast<int>(i)).context());
    ranks_[i] = Rank();
  }
}

void BenchTensors::require_same_nccl() const {
  if (nccl_ == nullptr) return;
  if (nccl_->generation() == nccl_generation_ && !nccl_->is_aborted()) return;
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
    if (check_) continue;
    fill_input_slice(op_, id, rank, *mine.data, *mine.stream, memory.address());
  }
  mine.flush = DeviceMemory(kFlushBytes);
  mine.word = DeviceMemory(256);
  if (!check_) {
    mine.references = reference_outputs(op_, rank, *mine.data, *mine.cublas, *mine.stream);
  }
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

BenchTensors::Verdict BenchTensors::verdict_of(const PlanRunner& runner) const {
  if (check_) return verdict_of_rows(runner);
  Verdict verdict{relative_error_of(runner), ""};
  if (verdict.error > most_error(op_)) {
    verdict.problem = fmt::format("wrong results: their relative error is {:.1e}", verdict.error);
  }
  return verdict;
}

BenchTensors::Verdict BenchTensors::verdict_of_rows(const PlanRunner& runner) const {
  RowCheck::Outputs outputs(op_.outputs.size());
  for (int i = 0; i < fabric_.num_local(); ++i) {
    const int rank = fabric_.first_rank() + i;
    fabric_.device(rank).make_current();
    for (size_t o = 0; o < op_.outputs.size(); ++o) {
      const OperatorOutput& output = op_.outputs[o];
      const Tensor& tensor = op_.tensor(output.tensor);
      const Slice slice = slice_of(op_, output.tensor, output.held, rank);
      auto& bytes = outputs[o].emplace_back(
          static_cast<size_t>(slice.rows() * slice.cols() * num_bytes(tensor.dtype)));
      const cuda::DevicePtr out = runner.buffer(tensor.name, rank);
      for_each_piece(buffer_of(runner, tensor.name), rank, bytes.size(),
                     [&](size_t from, size_t to, size_t piece) {
                       cuda::copy_from_gpu(bytes.data() + to, out + from, piece);
                       check(driver().fill_bytes(out + from, 0xff, piece, stream(rank).handle()),
                             "poison an output");
                     });
    }
    stream(rank).synchronize();
  }
  RowCheck::Found found;
  fabric_.group().together("comparing rows of a run", [&] {
    found = check_->compare(runner.plan(), fabric_.first_rank(), outputs);
  });
  const std::vector<double> worst =
      largest(fabric_, "the error of a run", {found.worst_error, found.is_right() ? 0.0 : 1.0});
  if (worst[1] == 0) return {worst[0], ""};
  return {worst[0], "wrong results: " + (!found.is_right()
                                             ? found.first_wrong
                                             : "of a rank of another process, which says more")};
}

double BenchTensors::relative_error_of(const PlanRunner& runner) const {
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
  if (nccl_ == nullptr) return;
  nccl_->all_reduce(rank, stream, mine.word.address(), mine.word.address(), 1, DType::fp32);
}

}  // namespace stretto::runtime
