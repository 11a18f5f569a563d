// Which of a rank's runs are launched as graphs: those of few rows, by a library.
#include <algorithm>

#include "run/rank_streams.h"
#include "stretto/buckets.h"

namespace stretto::runtime {
namespace {

// Each row count takes 7 to 17 us when the plan is made. With more rows than these a GPU takes
// longer than the host, unless that launches three kernels and more: where cuBLAS splits K.
constexpr int64_t kMostRowsOfGraphs = 64, kMostRowsOfManyKernels = 1024;
constexpr int64_t kMostCountsOfManyKernels = 256;  // of a bucket
constexpr size_t kManyKernels = 3;

}  // namespace

void RankStreams::capture_few_rows(const cuda::Stream& stream) {
  const bool is_alike = streams_.size() == 1 && !alternates_ && !advance_;  // run after run
  if (!library_ || !setup_.serves || !is_alike || setup_.calls != nullptr) return;
  if (setup_.plan.op.only_product() == nullptr) return;
  const Segment& op = *setup_.plan.op.only_product();
  int64_t first = 1;  // fewer rows are another bucket's
  for (const int64_t bucket : buckets_up_to(op.kind, op.ranks, op.m)) {
    if (bucket < op.m) first = bucket + 1;
  }
  const auto enqueue = [&](int64_t rows) {
    for (const Op& each : ops_) issue(each, stream, 0, {static_cast<int32_t>(rows), 0});
  };
  const auto is_many_kernels = [&] {
    return cuda::Capture(stream, [&] { enqueue(first); }).num_nodes() >= kManyKernels;
  };
  int64_t most = kMostRowsOfGraphs;
  if (op.m <= kMostRowsOfManyKernels && is_many_kernels()) {
    most = first + kMostCountsOfManyKernels - 1;
  }
  few_rows_ = CallGraphs(stream, first, std::min(op.m, most), enqueue);
}

}  // namespace stretto::runtime
