#include "cli/kernels_to_compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/progress.h"
#include "cli/request.h"
#include "core/text.h"
#include "gpu/device.h"
#include "gpu/shared_gpus.h"
#include "serve/usual_kernels.h"
#include "stretto/buckets.h"
#include "stretto/error.h"
#include "stretto/lower.h"
#include "stretto/tune.h"
#include "tables/plan_limits.h"

namespace stretto::cli {
namespace {

// Whether a list of strategies has that name.
bool lists(std::string_view strategies, std::string_view name) {
  const auto names = schedules_in(strategies);
  return std::find(names.begin(), names.end(), name) != names.end();
}

class Collector {
 public:
  Collector(const Options& options, std::string arch) : options_(options), arch_(std::move(arch)) {
    if (!options.strategy.empty()) strategies_ = options.strategy;
  }

  // Plans of so many rows.
  void add_fixed(const Operator& op) {
    const Machine machine = machine_of(op);
    for (const Choice& choice : resolve_strategies(strategies_, op, machine)) {
      add(choice, op, machine);
    }
  }

  // Those of an operation of up to so many rows: a plan for every bucket.
  void add_served(const Operator& op) {
    const Machine machine = machine_of(op);
    const Segment* const only = op.only_product();
    if (only == nullptr) {
      throw UsageError(fmt::format("{} is more than one product: leave --serve out", op.name()));
    }
    for (const int64_t rows : buckets_up_to(only->kind, op.ranks, op.rows())) {
      const Operator planned = with_rows(op, rows);
      if (strategies_ == "auto") {
        add_of_auto(*planned.only_product(), machine);
        continue;
      }
      for (Choice& choice :
           resolve_strategies(strategies_, planned, machine, RowCount::bucket, kServedWords)) {
        choice.schedule.products.front().rows = RowCount::bucket;
        choice.refused = legal(planned, choice.schedule, machine);
        add(choice, planned, machine);
      }
    }
  }

  KernelsToCompile take() { return std::move(found_); }

 private:
  Machine machine_of(const Operator& op) const {
    return resolve_machine(options_, op.ranks,
                           {.ranks_each = cuda::ranks_a_gpu(), .name = cuda::gpu_name()});
  }

  // As operations do, which have a second plan for rows in GPU memory where another is faster then;
  // a bucket without is served all the same.
  void add_of_auto(const Segment& planned, const Machine& machine) {
    const Schedule schedule = served_schedule(planned, machine, tuning_).schedule;
    add({"auto", schedule}, planned, machine);
    if (schedule.gemm != GemmBy::library) return;
    const std::string name = "auto, of rows in GPU memory";
    try {
      add({name, served_schedule(planned, machine, tuning_, RowsFrom::gpu_memory).schedule},
          planned, machine);
    } catch (const UsageError& error) {
      refuse(name, planned, {error.what()});
    }
  }

  void add(const Choice& choice, const Operator& op, const Machine& machine) {
    if (!choice.refused.empty()) return refuse(choice.name, op, choice.refused);
    const Plan plan = lower(op, choice.schedule, machine);
    const bool serves = choice.schedule.first().rows == RowCount::bucket;
    const auto reasons = cuda::why_not_on_cuda(plan, cuda::TileSums(plan), serves);
    if (!reasons.empty()) return refuse(choice.name, op, reasons);
    runtime::add_kernels(cuda::kernels_of(plan, arch_, serves), found_.kernels);
  }

  // Of an operation the smallest bucket's stands for the others'.
  void refuse(const std::string& name, const Operator& op, std::vector<std::string> reasons) {
    const auto same = [&](const RefusedSchedule& other) {
      return other == RefusedSchedule{name, with_rows(op, other.op.rows()), reasons};
    };
    if (options_.serve && std::any_of(found_.refused.begin(), found_.refused.end(), same)) return;
    found_.refused.push_back({name, op, std::move(reasons)});
  }

  const Options& options_;
  const std::string arch_;
  std::string strategies_ = "auto";
  const Tuning tuning_ = cuda::ranks_a_gpu() > 1 ? Tuning() : load_tuning();
  KernelsToCompile found_;
};

// The usual kernels are those of the shipped tuning file, whatever its operators and machine.
void refuse_what_needs_an_operator(const Options& options) {
  const std::pair<std::string_view, bool> given[] = {{"--strategy", !options.strategy.empty()},
                                                     {"--serve", options.serve},
                                                     {"--m", !options.m.empty()},
                                                     {"--n", !options.n.empty()},
                                                     {"--k", !options.k.empty()},
                                                     {"--ranks", !options.ranks.empty()},
                                                     {"--dtype", !options.dtype.empty()},
                                                     {"--machine", !options.machine.empty()}};
  for (const auto& [option, is_given] : given) {
    if (!is_given) continue;
    throw UsageError(fmt::format("{} needs an operator with its sizes, or --shapes FILE", option));
  }
}

// What an operation would not take as its schedule.
void require_served_strategies(const Options& options) {
  if (options.strategy == "sweep") {
    throw UsageError(
        "--serve does not go with --strategy sweep: tune measures plans of fixed rows");
  }
  if (options.strategy == "auto") return;
  if (lists(options.strategy, "auto")) {
    throw UsageError("with --serve auto stands alone: an operation takes auto or one schedule");
  }
}

}  // namespace

std::string to_string(const RefusedSchedule& refused) {
  return fmt::format("{} cannot serve {}: {}", refused.strategy, to_string(refused.op),
                     join(refused.reasons, "; "));
}

KernelsToCompile kernels_to_compile(const Options& options, const std::string& arch,
                                    Progress& progress) {
  if (options.subject.empty() && options.shapes.empty() && options.layer.empty()) {
    refuse_what_needs_an_operator(options);
    progress.show("planning what the tuning has measured", 0);
    return {runtime::usual_kernels(shipped_tuning(), arch), {}};
  }
  const std::vector<Operator> operators = resolve_operators(options);
  if (options.serve) require_served_strategies(options);
  Collector collector(options, arch);
  for (size_t i = 0; i < operators.size(); ++i) {
    progress.show("planning " + to_string(operators[i]),
                  static_cast<double>(i) / static_cast<double>(operators.size()));
    if (options.serve) {
      collector.add_served(operators[i]);
    } else {
      collector.add_fixed(operators[i]);
    }
  }
  KernelsToCompile found = collector.take();
  if (found.kernels.empty()) throw UsageError(to_string(found.refused.front()));
  return found;
}

}  // namespace stretto::cli
