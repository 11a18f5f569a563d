// The part of the C interface that needs no GPU.
#include <fmt/format.h>

#include <atomic>
#include <memory>

#include "c/arguments.h"
#include "c/kept_runs.h"
#include "c/sized.h"
#include "core/text.h"
#include "run/plan_memory.h"
#include "schedule/set_rows.h"
#include "stretto/buckets.h"
#include "stretto/check.h"
#include "stretto/emulate.h"
#include "stretto/error.h"
#include "stretto/lower.h"
#include "stretto/machine.h"
#include "stretto/schedule.h"
#include "stretto/simulate.h"
#include "stretto/tune.h"
#include "stretto/version.h"

using namespace stretto;
using c::guarded, c::keep, c::require;

struct stretto_plan {
  Machine machine;
  Plan plan;
  std::string reason;
  bool serves = false;
  c::KeptRuns runs = {};              // of fewer rows
  std::atomic<uint64_t> bad_ids = 0;  // of all runs
};

namespace stretto::c {
namespace {

std::unique_ptr<stretto_plan> make_plan(const stretto_plan_request* at) {
  const stretto_plan_request given = sized(
      at, "request",
      {"stretto_plan_request", offsetof(stretto_plan_request, machine) + sizeof(at->machine)});
  const Operator op = operator_of(given.op);
  auto plan = std::make_unique<stretto_plan>();
  stretto_plan& made = *plan;
  made.machine = given.machine == nullptr ? default_machine(op.ranks) : load_machine(given.machine);
  made.serves = given.serves != 0;
  const std::string_view text = text_of(given.schedule, "schedule");
  const RowCount rows = made.serves ? RowCount::bucket : RowCount::fixed;
  OperatorSchedule schedule;
  if (text == "auto") {
    AutoSchedules found = auto_schedules(op, made.machine, load_tuning(), rows);
    schedule = std::move(found.schedule);
    made.reason = std::move(found.reason);
  } else {
    NamedSchedule named = read_schedules(text, op, made.machine, kAutoWords, rows);
    schedule = std::move(named.schedule);
    made.reason = std::move(named.reason);
    if (made.serves) set_rows(schedule, rows);
  }
  if (const auto reasons = legal(op, schedule, made.machine); !reasons.empty()) {
    throw UsageError(
        fmt::format("this schedule cannot serve {}: {}", to_string(op), join(reasons, "; ")));
  }
  made.plan = lower(op, schedule, made.machine);
  return plan;
}

void require_served(const stretto_plan& plan, int64_t rows) {
  const int64_t most = plan.plan.op.rows();
  if (rows == most || (plan.serves && rows >= 1 && rows <= most)) return;
  throw UsageError(plan.serves ? fmt::format("{} rows; this plan serves 1 to {}", rows, most)
                               : fmt::format("{} rows; this plan was made for {}, no more and no "
                                             "fewer: one that serves takes fewer",
                                             rows, most));
}

// Null: the plan itself.
std::shared_ptr<const Plan> run_of(stretto_plan& plan, int64_t rows) {
  require_served(plan, rows);
  return rows == plan.plan.op.rows() ? nullptr : plan.runs.at(plan.plan, rows);
}

// A plan that was derived does not end so; what is told is for a report.
[[noreturn]] void refuse_execution(const EmulateResult& result) {
  std::string what = "the execution did not end";
  if (!result.faults.empty()) what = result.faults.front().text;
  if (!result.stuck.empty()) {
    what = fmt::format("{} waits for {} for ever", result.stuck.front().lane,
                       result.stuck.front().signal);
  }
  throw SystemError(what);
}

}  // namespace
}  // namespace stretto::c

int stretto_c_version() { return STRETTO_C_VERSION; }
const char* stretto_version() { return STRETTO_VERSION; }

int stretto_tensor_count(const stretto_operator* given, int32_t* count) {
  return guarded([&] {
    require(count, "count") = static_cast<int32_t>(caller_tensors(c::operator_of(given)).size());
  });
}

int stretto_tensor_of(const stretto_operator* given, int32_t serves, int32_t rank, int32_t index,
                      stretto_tensor_info* info) {
  return guarded([&] {
    Operator op = c::operator_of(given);
    if (serves != 0) op = with_rows(op, bucket_of(op, op.rows()));
    c::tell_tensor(op, rank, index, info);
  });
}

int stretto_plan_make(const stretto_plan_request* request, stretto_plan** plan) {
  return guarded([&] {
    auto*& made = require(plan, "plan");
    made = nullptr;
    made = c::make_plan(request).release();
  });
}

int stretto_plan_close(stretto_plan* plan) {
  return guarded([&] { delete &require(plan, "plan"); });
}

int stretto_plan_rows(const stretto_plan* plan, int64_t* rows) {
  return guarded([&] { require(rows, "rows") = require(plan, "plan").plan.op.rows(); });
}

int stretto_plan_tensor(const stretto_plan* plan, int64_t rows, int32_t rank, int32_t index,
                        stretto_tensor_info* info) {
  return guarded([&] {
    const stretto_plan& of = require(plan, "plan");
    c::require_served(of, rows);
    c::tell_tensor(rows == of.plan.op.rows() ? of.plan.op : with_rows(of.plan.op, rows), rank,
                   index, info);
  });
}

int stretto_plan_schedule(const stretto_plan* plan, const char** schedule, const char** reason) {
  return guarded([&] {
    const stretto_plan& of = require(plan, "plan");
    require(schedule, "schedule") = keep(0, of.plan.schedule);
    require(reason, "reason") = keep(1, of.reason);
  });
}

int stretto_plan_predict(const stretto_plan* plan, double* microseconds) {
  return guarded([&] {
    const stretto_plan& of = require(plan, "plan");
    require(microseconds, "microseconds") = simulate(of.plan, of.machine).total_us;
  });
}

int stretto_plan_check(const stretto_plan* plan, int64_t* num_problems, const char** problems) {
  return guarded([&] {
    const CheckReport report = check(require(plan, "plan").plan);
    std::vector<std::string> lines;
    for (const Diagnostic& one : report.diagnostics) {
      lines.push_back(fmt::format("{}: {}", to_string(one.kind), one.message));
    }
    if (report.truncated) lines.push_back("and more: the check stopped here");
    require(num_problems, "num_problems") = static_cast<int64_t>(lines.size());
    require(problems, "problems") = keep(0, join(lines, "\n"));
  });
}

int stretto_plan_workspace(const stretto_plan* plan, uint64_t* num_bytes) {
  return guarded([&] {
    require(num_bytes, "num_bytes") = runtime::bytes_between_ranks(require(plan, "plan").plan);
  });
}

int stretto_plan_text(const stretto_plan* plan, const char** text) {
  return guarded([&] { require(text, "text") = keep(0, print(require(plan, "plan").plan)); });
}

int stretto_plan_execute(stretto_plan* plan, int64_t rows, const stretto_call_tensor* tensors,
                         size_t count) {
  return guarded([&] {
    stretto_plan& of = require(plan, "plan");
    if (rows == 0 && of.serves) return;
    const std::shared_ptr<const Plan> fewer = c::run_of(of, rows);
    const Plan& run = fewer == nullptr ? of.plan : *fewer;
    std::vector<std::vector<CallTensor>> by_rank(static_cast<size_t>(run.ranks()));
    for (const c::TensorOfRank& one : c::call_tensors(run.op, tensors, count)) {
      by_rank[static_cast<size_t>(one.rank)].push_back(one.tensor);
    }
    const EmulateResult result = execute(run, by_rank);
    if (!result.finished || !result.faults.empty()) c::refuse_execution(result);
    of.bad_ids += static_cast<uint64_t>(result.bad_ids);
  });
}

int stretto_plan_bad_ids(const stretto_plan* plan, uint64_t* count) {
  return guarded([&] { require(count, "count") = require(plan, "plan").bad_ids.load(); });
}
