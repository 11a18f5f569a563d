// The part of the C interface that needs no GPU.
#include <fmt/format.h>

#include "c/boundary.h"
#include "c/sized.h"
#include "core/text.h"
#include "stretto/buckets.h"
#include "stretto/c.h"
#include "stretto/check.h"
#include "stretto/error.h"
#include "stretto/lower.h"
#include "stretto/machine.h"
#include "stretto/reference.h"
#include "stretto/schedule.h"
#include "stretto/simulate.h"
#include "stretto/tune.h"
#include "stretto/version.h"

namespace stretto::c {
namespace {

Segment operator_of(const stretto_operator* at) {
  const stretto_operator given =
      sized(at, "op", {"stretto_operator", offsetof(stretto_operator, dtype) + sizeof(at->dtype)});
  const Segment op{kind_of(given.kind),  given.m, given.n, given.k, given.ranks,
                   dtype_of(given.dtype)};
  validate(op);
  return op;
}

struct Chosen {
  Segment op;
  Machine machine;
  Schedule schedule;
  std::string reason;

  explicit Chosen(const stretto_plan_request* at)
      : Chosen(sized(at, "request",
                     {"stretto_plan_request",
                      offsetof(stretto_plan_request, machine) + sizeof(at->machine)})) {}
  Plan plan() const { return lower(op, schedule, machine); }

 private:
  explicit Chosen(const stretto_plan_request& request)
      : op(operator_of(request.op)),
        machine(request.machine == nullptr ? default_machine(op.ranks)
                                           : load_machine(request.machine)) {
    const std::string_view text = text_of(request.schedule, "schedule");
    const RowCount rows = request.serves != 0 ? RowCount::bucket : RowCount::fixed;
    if (text == "auto") {
      AutoSchedule found = auto_schedule(op, machine, load_tuning(), rows);
      schedule = found.schedule;
      reason = std::move(found.reason);
      return;
    }
    schedule = parse_schedule(text, op, machine, kAutoWords);
    if (rows == RowCount::bucket) schedule.rows = rows;
    if (const auto reasons = legal(op, schedule, machine); !reasons.empty()) {
      throw UsageError(
          fmt::format("this schedule cannot serve {}: {}", to_string(op), join(reasons, "; ")));
    }
  }
};

}  // namespace
}  // namespace stretto::c

using namespace stretto;
using c::guarded, c::keep, c::require;

int stretto_c_version() { return STRETTO_C_VERSION; }
const char* stretto_version() { return STRETTO_VERSION; }

int stretto_plan(const stretto_plan_request* request, const char** schedule, const char** reason,
                 double* predicted_us) {
  return guarded([&] {
    const c::Chosen chosen(request);
    const double total_us = simulate(chosen.plan(), chosen.machine).total_us;
    require(predicted_us, "predicted_us") = total_us;
    require(schedule, "schedule") = keep(0, to_string(chosen.schedule));
    require(reason, "reason") = keep(1, chosen.reason);
  });
}

int stretto_check(const stretto_plan_request* request, int64_t* num_problems,
                  const char** problems) {
  return guarded([&] {
    const CheckReport report = check(c::Chosen(request).plan());
    std::vector<std::string> lines;
    for (const Diagnostic& one : report.diagnostics) {
      lines.push_back(fmt::format("{}: {}", to_string(one.kind), one.message));
    }
    if (report.truncated) lines.push_back("and more: the check stopped here");
    require(num_problems, "num_problems") = static_cast<int64_t>(lines.size());
    require(problems, "problems") = keep(0, join(lines, "\n"));
  });
}

int stretto_shape(const stretto_operator* given, int32_t serves, stretto_tensor tensor,
                  int64_t* rows, int64_t* cols) {
  return guarded([&] {
    Segment op = c::operator_of(given);
    if (serves != 0) op.m = bucket_of(op.kind, op.ranks, op.m);
    validate(op);
    if (tensor != STRETTO_A && tensor != STRETTO_B && tensor != STRETTO_OUT) {
      throw UsageError(
          fmt::format("tensor {}; it is 0 (a), 1 (b) or 2 (out)", static_cast<int>(tensor)));
    }
    // Rank 0 has a whole block of rows, others may have less.
    const Slice slice = tensor == STRETTO_OUT
                            ? output_slice(op, 0)
                            : input_slice(op, tensor == STRETTO_A ? Input::a : Input::b, 0);
    require(rows, "rows") = slice.rows();
    require(cols, "cols") = slice.cols();
  });
}
