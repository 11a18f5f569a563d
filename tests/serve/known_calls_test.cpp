// Calls whose tensors are not where they may be are refused, before a kernel is enqueued; in the
// stub of the driver.
#include <gmock/gmock.h>

#include <functional>
#include <optional>
#include <vector>

#include "stretto/context.h"
#include "stretto/error.h"
#include "stub_launches.h"

namespace stretto {
namespace {

using testing::AllOf, testing::HasSubstr, testing::IsEmpty;

constexpr int64_t kRows = 1024, kColumns = 1024;
const Segment kProduct{kGemmRs, kRows, kColumns, kColumns, 2, DType::bf16};

class KnownCallsInTheStub : public testing::Test {
 protected:
  void SetUp() override {
    STRETTO_INSIDE_THE_STUB();
    context_.emplace(2, 1.0);
    operation_.emplace(*context_, kProduct, OperationOptions{.schedule = "tiles"});
    memory_.emplace(*context_, *operation_);
    stub_launches();
  }
  // What a call of rank 0 with these tensors is told; empty: it ran.
  std::string told(const std::vector<CallTensor>& tensors) {
    return told_by([&] { operation_->run(0, context_->stream(0), kRows, tensors); });
  }
  std::string told_by(const std::function<void()>& call) {
    stub_launches();
    try {
      call();
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), testing::Not(HasSubstr("\n")));
      EXPECT_EQ(stub_launches().size(), 0u);
      return error.what();
    }
    EXPECT_GT(stub_launches().size(), 0u);
    return "";
  }
  std::vector<CallTensor> tensors() const { return {memory_->of(0).begin(), memory_->of(0).end()}; }
  // With another address of the tensor.
  std::vector<CallTensor> with(std::string_view name, GpuAddress address,
                               int64_t stride = 0) const {
    std::vector<CallTensor> changed = tensors();
    for (CallTensor& one : changed) {
      if (one.name == name) one.address = address, one.row_stride = stride;
    }
    return changed;
  }

  std::optional<Context> context_;
  std::optional<Operation> operation_;
  std::optional<TensorMemory> memory_;
};

TEST(KnownCalls, AreRefusedWhereTensorsLieWrong) {
  const std::string stub = in_the_stub("STUB_KNOWS_MEMORY=1");
  for (const char* test :
       {"KnownCallsInTheStub.MemoryIsOfTheRanksGpu", "KnownCallsInTheStub.OutputsLieOnNothing",
        "KnownCallsInTheStub.ViewsLieBesideEachOther",
        "KnownCallsInTheStub.RowsInMemoryAreReached"}) {
    EXPECT_EQ(run_inside(stub, test), 0) << test;
  }
}

TEST_F(KnownCallsInTheStub, MemoryIsOfTheRanksGpu) {
  EXPECT_EQ(told(tensors()), "");
  std::vector<char> host(size_t{8} << 20);
  const GpuAddress on_host = (reinterpret_cast<GpuAddress>(host.data()) + 15) / 16 * 16;
  for (const char* name : {"a", "b", "out"}) {
    EXPECT_THAT(told(with(name, on_host)),
                AllOf(HasSubstr(fmt::format("tensor {} of ", name)),
                      HasSubstr("it is no memory that CUDA knows, so perhaps the host's; give "
                                "memory of GPU 0")));
    EXPECT_THAT(told(with(name, memory_->at(1, name))), HasSubstr("it is memory of GPU 1; give"));
  }
  // Not all of the tensor is in what was allocated.
  EXPECT_THAT(told(with("b", memory_->at(0, "b") + 16)), HasSubstr("its end is no memory"));
  // A call that came before is no other for what was refused since.
  EXPECT_EQ(told(tensors()), "");
}

TEST_F(KnownCallsInTheStub, MemoryThatHadTensorsIsKnown) {
  const GpuAddress x = context_->allocate(0, 2 * kRows * kColumns);
  EXPECT_EQ(told(with("a", x)), "");
  setenv("STUB_FAIL", "cuPointerGetAttributes=1", 1);
  EXPECT_EQ(told(with("a", x + 256)), "");
  EXPECT_THROW(operation_->run(0, context_->stream(0), kRows,
                               with("a", context_->allocate(0, 2 * kRows * kColumns))),
               SystemError);
  unsetenv("STUB_FAIL");
}

TEST_F(KnownCallsInTheStub, OutputsLieOnNothing) {
  EXPECT_THAT(told(with("out", memory_->at(0, "a"))),
              HasSubstr("tensors a and out lie on each other, and out is written: give outputs"));
  const size_t bytes_of_b = size_t{kColumns * kColumns / 2 * 2};
  const GpuAddress both = context_->allocate(0, 2 * bytes_of_b);
  std::vector<CallTensor> behind = with("b", both);
  for (CallTensor& one : behind) {
    if (one.name == "out") one.address = both + bytes_of_b;
  }
  EXPECT_EQ(told(behind), "");
  for (CallTensor& one : behind) {
    if (one.name == "out") one.address -= 16;
  }
  EXPECT_THAT(told(behind), HasSubstr("tensors b and out lie on each other"));
  EXPECT_EQ(told(with("b", memory_->at(0, "a"))), "");  // both are read only
}

// Rows of views of one matrix alternate.
TEST_F(KnownCallsInTheStub, ViewsLieBesideEachOther) {
  Operation gather(*context_, Segment{kAgGemm, kRows, kColumns, kColumns, 2, DType::bf16},
                   {.schedule = "tiles"});
  const TensorMemory memory(*context_, gather);
  const GpuAddress both = context_->allocate(0, size_t{2 * kRows * kColumns * 2 + 16});
  // b [N / 2, K] and out [M, N / 2].
  const auto told_of = [&](GpuAddress out) {
    return told_by([&] {
      gather.run(0, context_->stream(0), kRows,
                 {{"a", memory.at(0, "a")}, {"b", both, 2 * kColumns}, {"out", out, 2 * kColumns}});
    });
  };
  EXPECT_EQ(told_of(both + kColumns * 2), "");
  EXPECT_THAT(told_of(both + kColumns * 2 - 16), HasSubstr("tensors b and out lie on each other"));
  EXPECT_EQ(told_of(both + kColumns * 3), "");
  EXPECT_THAT(told_of(both + kColumns * 3 + 16), HasSubstr("tensors b and out lie on each other"));
}

TEST_F(KnownCallsInTheStub, RowsInMemoryAreReached) {
  const auto run_at = [&](GpuAddress rows) {
    return told_by([&] { operation_->run(0, context_->stream(0), rows, kRows, tensors()); });
  };
  EXPECT_EQ(run_at(context_->allocate(0, 4)), "");
  int32_t on_host = 7;
  EXPECT_THAT(run_at(reinterpret_cast<GpuAddress>(&on_host)), HasSubstr("no GPU reaches"));
}

}  // namespace
}  // namespace stretto
