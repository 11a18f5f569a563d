// Plans with clusters: exact on integers, within the bound on random data, and proved.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "stretto/check.h"
#include "stretto/emulate.h"
#include "stretto/lower.h"
#include "stretto/schedule.h"

namespace stretto::emu {
namespace {

TEST(Cluster, IsRightForEveryGatherAndShape) {
  struct Shape {
    int64_t m, n, k;
    const char* tile;
    int phases;
  };
  // Tiles that straddle owners, ranks without rows; nothing that divides; phases of one step.
  const Shape shapes[] = {
      {17, 24, 130, "16x16", 3}, {125, 40, 333, "16x32", 2}, {43, 24, 256, "32x16", 4}};
  int run = 0;
  for (const int ranks : {1, 2, 3, 4, 8}) {
    Machine machine = default_machine(ranks);
    machine.sms = 9;  // several waves, and one SM over
    for (const Shape& shape : shapes) {
      const DType dtype = static_cast<DType>(run++ % 3);
      const Operator op{OpKind::ag_gemm, shape.m, shape.n * ranks, shape.k, ranks, dtype};
      const std::shared_ptr<SharedReference> reference = make_shared_reference();
      for (const std::string& change :
           {std::string(), fmt::format(",k-phases={}", shape.phases), std::string(",own=gathered"),
            fmt::format(",order=interleaved,own=gathered,k-phases={}", shape.phases),
            fmt::format(",start=wave,k-phases={}", shape.phases),
            std::string(",order=own-first,swizzle=1"), std::string(",sync=counter,reuse=ack")}) {
        const std::string text =
            fmt::format("tiles,tile={},comm-sms=2,cluster=2{}", shape.tile, change);
        SCOPED_TRACE(to_string(op) + "\n" + text);
        const Plan plan = lower(op, parse_schedule(text, op, machine), machine);
        const CheckReport report = check(plan);
        ASSERT_TRUE(report.clean()) << report.diagnostics[0].message;
        for (const Fill fill : {Fill::integers, Fill::random}) {
          const EmulateResult result =
              emulate(plan, {.seed = 3, .fill = fill, .runs = 2, .reference = reference});
          ASSERT_TRUE(result.finished && result.verified && result.faults.empty())
              << result.first_wrong;
        }
      }
    }
  }
}

}  // namespace
}  // namespace stretto::emu
