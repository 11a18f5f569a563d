#include "measure/bench_tensors.h"

#include <algorithm>

#include "run/rank_threads.h"
#include "stretto/error.h"

namespace stretto::runtime {
namespace {

using cuda::check;
using cuda::DeviceMemory;
using cuda::driver;
using cuda::Matrix;

constexpr size_t kFlushBytes = size_t{256} << 20;  // several times any L2 cache

size_t bytes_of(int64_t rows, int64_t columns, int size) {
  return static_cast<size_t>(std::max<int64_t>(1, rows) * columns * size);
}

uint64_t seed_of_a(int rank) { return static_cast<uint64_t>(rank) * 2 + 1; }
uint64_t seed_of_b(int rank) { return static_cast<uint64_t>(rank) * 2 + 2; }

// A plan may have given NCCL up before.
const fabric::Communicators& connected(fabric::Fabric& fabric) {
  fabric::Communicators& nccl = fabric.communicators();
  if (!nccl.renew(fabric.group())) throw SystemError(fabric::kStillHeld);
  return nccl;
}

}  // namespace

BenchTensors::BenchTensors(const Segment& op, fabric::Fabric& fabric,
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

// Shards of A are as long on every rank: NCCL gathers equal parts.
int64_t BenchTensors::a_rows(int rank) const {
  return op_.makes_terms() ? op_.m : op_.row_shards().size(rank);
}

int64_t BenchTensors::out_rows(int rank) const {
  return op_.kind == kGemmRs ? op_.row_shards().size(rank) : op_.m;
}

void BenchTensors::prepare(int rank, const cuda::Compiler& compiler) {
  Rank& mine = of(rank);
  mine.stream = std::make_unique<cuda::Stream>();
  mine.data = std::make_unique<cuda::TestData>(fabric_.device(rank), compiler);
  mine.cublas = std::make_unique<cuda::Cublas>(*mine.stream);
  const int size = num_bytes(op_.dtype);
  const int64_t block = op_.row_shards().block(), all_rows = block * op_.ranks;
  mine.a = DeviceMemory(bytes_of(op_.makes_terms() ? op_.m : block, op_.local_k(), size));
  mine.b = DeviceMemory(bytes_of(op_.local_n(), op_.local_k(), size));
  mine.wide = DeviceMemory(bytes_of(all_rows, op_.makes_terms() ? op_.n : op_.k, size));
  mine.out = DeviceMemory(bytes_of(all_rows, op_.local_n(), size));
  mine.reference = DeviceMemory(bytes_of(out_rows(rank), op_.local_n(), 4));
  mine.flush = DeviceMemory(kFlushBytes);
  mine.word = DeviceMemory(256);
  mine.data->fill(*mine.stream, mine.a.address(), a_rows(rank) * op_.local_k(), op_.dtype,
                  device::Fill::normal, seed_of_a(rank));
  mine.data->fill(*mine.stream, mine.b.address(), op_.local_n() * op_.local_k(), op_.dtype,
                  device::Fill::normal, seed_of_b(rank));
  make_reference(rank);
  mine.stream->synchronize();
}

// In fp32 on the rank's own GPU; other ranks' inputs are made once more here.
void BenchTensors::make_reference(int rank) {
  Rank& mine = of(rank);
  const RowShards shards = op_.row_shards();
  const int64_t k = op_.local_k(), n = op_.local_n();
  const int size = num_bytes(op_.dtype);
  DeviceMemory a_copy(mine.a.num_bytes()), b_copy(mine.b.num_bytes());
  for (int source = 0; source < op_.ranks; ++source) {
    if (a_rows(source) == 0) continue;
    mine.data->fill(*mine.stream, a_copy.address(), a_rows(source) * k, op_.dtype,
                    device::Fill::normal, seed_of_a(source));
    Matrix a{a_copy.address(), a_rows(source), k, k, op_.dtype};
    Matrix b{mine.b.address(), n, k, k, op_.dtype};
    Matrix to{mine.reference.address(), a.rows, n, n, DType::fp32};
    if (op_.makes_terms()) {
      mine.data->fill(*mine.stream, b_copy.address(), n * k, op_.dtype, device::Fill::normal,
                      seed_of_b(source));
      b.address = b_copy.address();
      if (op_.kind == kGemmRs) {
        a.rows = to.rows = shards.size(rank);
        a.address += static_cast<uint64_t>(shards.begin(rank) * k * size);
      }
    } else {
      to.address += static_cast<uint64_t>(shards.begin(source) * n * 4);
    }
    if (a.rows > 0) mine.cublas->multiply(a, b, to, op_.makes_terms() && source > 0);
  }
  mine.stream->synchronize();
}

void BenchTensors::enqueue_library(int rank, bool gemm, bool collective) const {
  const Rank& mine = of(rank);
  const int64_t k = op_.local_k(), n = op_.local_n(), block = op_.row_shards().block();
  const Matrix b{mine.b.address(), n, k, k, op_.dtype};
  if (op_.kind == kAgGemm) {
    if (collective) {
      nccl_.all_gather(rank, *mine.stream, mine.a.address(), mine.wide.address(), block * op_.k,
                       op_.dtype);
    }
    if (gemm) {
      mine.cublas->multiply({mine.wide.address(), op_.m, k, k, op_.dtype}, b,
                            {mine.out.address(), op_.m, n, n, op_.dtype});
    }
    return;
  }
  if (gemm) {
    mine.cublas->multiply({mine.a.address(), op_.m, k, k, op_.dtype}, b,
                          {mine.wide.address(), op_.m, n, n, op_.dtype});
  }
  if (!collective) return;
  if (op_.kind == kGemmRs) {
    nccl_.reduce_scatter(rank, *mine.stream, mine.wide.address(), mine.out.address(), block * n,
                         op_.dtype);
  } else {
    nccl_.all_reduce(rank, *mine.stream, mine.wide.address(), mine.wide.address(), op_.m * n,
                     op_.dtype);
  }
}

void BenchTensors::copy_inputs(const PlanRunner& runner) const {
  const auto size = static_cast<uint64_t>(num_bytes(op_.dtype));
  for (int i = 0; i < fabric_.num_local(); ++i) {
    const int rank = fabric_.first_rank() + i;
    fabric_.device(rank).make_current();
    const Rank& mine = of(rank);
    const auto copy = [&](const char* name, const DeviceMemory& from, int64_t rows) {
      if (rows == 0) return;
      check(driver().copy_async(runner.buffer(name, rank), from.address(),
                                static_cast<uint64_t>(rows * op_.local_k()) * size,
                                mine.stream->handle()),
            "copy an input");
    };
    copy("a", mine.a, a_rows(rank));
    copy("b", mine.b, op_.local_n());
    mine.stream->synchronize();
  }
}

double BenchTensors::error_of(const PlanRunner& runner) const {
  double worst = 0;
  for (int i = 0; i < fabric_.num_local(); ++i) {
    const int rank = fabric_.first_rank() + i;
    const int64_t count = out_rows(rank) * op_.local_n();
    if (count == 0) continue;
    fabric_.device(rank).make_current();
    const Rank& mine = of(rank);
    const cuda::DevicePtr out = runner.buffer("out", rank);
    worst = std::max(worst, cuda::relative_error(mine.data->compare(
                                *mine.stream, out, op_.dtype, mine.reference.address(), count)));
    check(driver().fill_bytes(out, 0xff, static_cast<size_t>(count * num_bytes(op_.dtype)),
                              mine.stream->handle()),
          "poison an output");
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
