#include "gathers.h"

#include <gtest/gtest.h>

#include "stretto/check.h"
#include "stretto/emulate.h"
#include "stretto/lower.h"
#include "stretto/schedule.h"

namespace stretto::emu {
namespace {

void expect_right(const Plan& plan, const std::shared_ptr<SharedReference>& reference) {
  const CheckReport report = check(plan);
  ASSERT_TRUE(report.clean()) << report.diagnostics[0].message;
  for (const Fill fill : {Fill::integers, Fill::random}) {
    const EmulateResult result =
        emulate(plan, {.seed = 3, .fill = fill, .runs = 2, .reference = reference});
    ASSERT_TRUE(result.finished && result.verified && result.faults.empty()) << result.first_wrong;
  }
}

}  // namespace

void expect_gathers_are_right(
    const std::vector<GatherShape>& shapes,
    const std::function<std::vector<std::string>(const GatherShape&)>& schedules) {
  int run = 0;
  for (const int ranks : {1, 2, 3, 4, 8}) {
    Machine machine = default_machine(ranks);
    machine.sms = 9;
    for (const GatherShape& shape : shapes) {
      const DType dtype = static_cast<DType>(run++ % 3);
      const Segment op{kAgGemm, shape.m, shape.n * ranks, shape.k, ranks, dtype};
      const std::shared_ptr<SharedReference> reference = make_shared_reference();
      for (const std::string& text : schedules(shape)) {
        SCOPED_TRACE(to_string(op) + "\n" + text);
        expect_right(lower(op, parse_schedule(text, op, machine), machine), reference);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

}  // namespace stretto::emu
