// Gathers whose lanes begin together: exact on integers, within the bound on random data, proved.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "stretto/check.h"
#include "stretto/emulate.h"
#include "stretto/lower.h"
#include "stretto/schedule.h"

namespace stretto::emu {
namespace {

TEST(Waves, AreRightForEveryMoverAndShape) {
  struct Shape {
    int64_t m, n, k;
    const char* tile;
  };
  // Tiles that straddle owners, ranks without rows; nothing that divides; many stripes a wave.
  const Shape shapes[] = {{17, 24, 130, "16x16"}, {125, 40, 333, "16x32"}, {403, 10, 96, "16x16"}};
  int run = 0;
  for (const int ranks : {1, 2, 3, 4, 8}) {
    Machine machine = default_machine(ranks);
    machine.sms = 9;  // several waves
    for (const Shape& shape : shapes) {
      const DType dtype = static_cast<DType>(run++ % 3);
      const Operator op{OpKind::ag_gemm, shape.m, shape.n * ranks, shape.k, ranks, dtype};
      const std::shared_ptr<SharedReference> reference = make_shared_reference();
      for (const char* change :
           {"sync=flag,comm-sms=2", "sync=counter,comm-sms=2", "sync=flag,comm-sms=3,reuse=ack",
            "sync=counter,comm-sms=3,reuse=ack", "sync=counter,comm-sms=2,k-phases=2",
            "sync=counter,comm-sms=2,k-phases=2,own=gathered,order=interleaved,reuse=ack",
            "sync=flag,mover=copy-engine", "sync=counter,mover=copy-engine,order=own-first",
            "sync=counter,comm-sms=2,split-k=2"}) {
        const std::string text = fmt::format("tiles,tile={},start=wave,{}", shape.tile, change);
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
