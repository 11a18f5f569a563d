// Serves a row count that changes with every call, and tensors that come with it: the two GEMMs of
// a tensor-parallel layer, all-gather + GEMM and GEMM + reduce-scatter, planned once and verified
// for every call. Needs
// GPUs; without them it says so. As one process, or one a GPU: stretto launch, torchrun, mpirun.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "expect.h"
#include "stretto/buckets.h"
#include "stretto/context.h"
#include "stretto/error.h"
#include "stretto/reference.h"

using namespace stretto;

constexpr int64_t kMaxRows = 1024, kHidden = 1024, kInner = 2048;

// Small integers, whose bf16 is the upper half of their fp32.
std::vector<uint16_t> values_of(const Segment& op, const InputData& data, Input input, int rank) {
  const Slice slice = input_slice(op, input, rank);
  std::vector<float> line(static_cast<size_t>(slice.cols()));
  std::vector<uint16_t> values;
  for (int64_t row = slice.row0; row < slice.row1; ++row) {
    fill_input(op, data, input, row, slice.col0, line);
    for (const float value : line) {
      uint32_t bits = 0;
      std::memcpy(&bits, &value, sizeof(bits));
      values.push_back(static_cast<uint16_t>(bits >> 16));
    }
  }
  return values;
}

void write_inputs(const Context& context, const TensorMemory& memory, const Segment& op,
                  const InputData& data) {
  for (int i = 0; i < context.num_local(); ++i) {
    const int rank = context.first_rank() + i;
    const auto a = values_of(op, data, Input::a, rank), b = values_of(op, data, Input::b, rank);
    context.copy_to_gpu(rank, memory.at(rank, "a"), a.data(), a.size() * 2);
    context.copy_to_gpu(rank, memory.at(rank, "b"), b.data(), b.size() * 2);
  }
}

int64_t wrong_elements(const Context& context, const TensorMemory& memory, const Segment& op,
                       const InputData& data) {
  const ExpectedRows expected = expected_rows(op, data, {}, 0, op.m);
  int64_t wrong = 0;
  for (int i = 0; i < context.num_local(); ++i) {
    const int rank = context.first_rank() + i;
    const Slice slice = output_slice(op, rank);
    std::vector<uint16_t> out(static_cast<size_t>(slice.rows() * slice.cols()));
    context.copy_from_gpu(rank, out.data(), memory.at(rank, "out"), out.size() * 2);
    for (size_t at = 0; at < out.size(); ++at) {
      const uint32_t bits = uint32_t{out[at]} << 16;
      float value = 0;
      std::memcpy(&value, &bits, sizeof(value));
      const auto row = static_cast<int64_t>(at) / slice.cols();
      const auto col = static_cast<int64_t>(at) % slice.cols();
      wrong += value != expected.value(slice.row0 + row, slice.col0 + col);
    }
  }
  return wrong;
}

void serve(Context& context) {
  const auto op_of = [&](ProductKind kind, int64_t n, int64_t k) {
    return Segment{kind, kMaxRows, n, k, context.ranks(), DType::bf16};
  };
  Operation up(context, op_of(kAgGemm, kInner, kHidden));
  Operation down(context, op_of(kGemmRs, kHidden, kInner));
  // A model would have its own: every call says where they lie.
  const TensorMemory of_up(context, up), of_down(context, down);
  uint64_t seed = 0;
  for (const int64_t rows : {1024, 1, 300, 7, 1000, 512}) {
    const InputData data{Fill::integers, ++seed};
    write_inputs(context, of_up, *up.at(rows).only_product(), data);
    write_inputs(context, of_down, *down.at(rows).only_product(), data);
    for (int i = 0; i < context.num_local(); ++i) {
      const int rank = context.first_rank() + i;
      up.run(rank, context.stream(rank), rows, of_up.of(rank));
      down.run(rank, context.stream(rank), rows, of_down.of(rank));
    }
    up.finish();
    down.finish();
    const int64_t wrong = wrong_elements(context, of_up, *up.at(rows).only_product(), data) +
                          wrong_elements(context, of_down, *down.at(rows).only_product(), data);
    expect(wrong == 0, "a call gives what the reference says");
    if (context.first_rank() > 0) continue;
    fmt::print("{:5} rows: right, by a plan for {}\n", rows,
               bucket_of(kGemmRs, context.ranks(), rows));
  }
}

int main(int argc, char** argv) {
  std::unique_ptr<Context> context;
  try {
    context = std::make_unique<Context>(argc > 1 ? std::atoi(argv[1]) : 2);
  } catch (const SystemError& error) {
    fmt::print("not served: {}\n", error.what());
    return 0;
  }
  return run_example([&] { serve(*context); });
}
