// An operation of one product with memory for its tensors: what tests and benchmarks call.
#pragma once

#include "stretto/context.h"

namespace stretto {

// A product but for its rows.
struct ProductShape {
  ProductKind kind = kGemmRs;
  int64_t n = 0, k = 0;  // global
  DType dtype = DType::bf16;
};

class OperationOnMemory : public Operation {
 public:
  OperationOnMemory(Context& context, const ProductShape& shape, int64_t max_rows,
                    const OperationOptions& options = {})
      : Operation(context,
                  Segment{shape.kind, max_rows, shape.n, shape.k, context.ranks(), shape.dtype},
                  options),
        memory_(context, *this) {}

  const TensorMemory& memory() const { return memory_; }
  Segment product(int64_t rows) const { return *at(rows).only_product(); }
  GpuAddress a(int rank) const { return memory_.of(rank)[0].address; }
  GpuAddress b(int rank) const { return memory_.of(rank)[1].address; }
  GpuAddress out(int rank) const { return memory_.of(rank)[2].address; }

  void run(int rank, GpuStream stream, int64_t rows) {
    Operation::run(rank, stream, rows, memory_.of(rank));
  }
  void run(int rank, GpuStream stream, GpuAddress rows, int64_t bucket) {
    Operation::run(rank, stream, rows, bucket, memory_.of(rank));
  }

 private:
  TensorMemory memory_;
};

}  // namespace stretto
