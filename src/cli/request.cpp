#include "cli/request.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "cli/progress.h"
#include "core/file.h"
#include "core/text.h"
#include "gpu/shared_gpus.h"
#include "machine/find_machine.h"
#include "op/names.h"
#include "stretto/emulate.h"
#include "stretto/error.h"
#include "stretto/lower.h"
#include "stretto/serve.h"
#include "stretto/simulate.h"

namespace stretto::cli {
namespace {

constexpr size_t kMaxShapesBytes = size_t{1} << 20;

int64_t size_option(std::string_view option, std::string_view text) {
  return whole_number(option, text, 0, 1, kMaxDim);
}

int ranks_option(const Options& options) {
  return static_cast<int>(whole_number("--ranks", options.ranks, 8, 1, kMaxRanks));
}

DType dtype_option(const Options& options) {
  const std::string_view dtype = options.dtype.empty() ? "bf16" : std::string_view(options.dtype);
  const auto known = dtype_from(dtype);
  if (!known) throw UsageError(unknown_word("dtype", dtype, kDTypeNames));
  return *known;
}

Operator resolve_operator(OpKind kind, const Options& options) {
  std::vector<std::string> missing;
  if (options.m.empty()) missing.push_back("--m");
  if (options.n.empty()) missing.push_back("--n");
  if (options.k.empty()) missing.push_back("--k");
  if (!missing.empty()) {
    throw UsageError(fmt::format(
        "{0} needs its sizes: {1} missing; for example: {0} --m 2048 --n 1024 --k 4096 --ranks 8",
        to_string(kind), join(missing, ", ")));
  }
  Operator op;
  op.kind = kind;
  op.m = size_option("--m", options.m);
  op.n = size_option("--n", options.n);
  op.k = size_option("--k", options.k);
  op.ranks = ranks_option(options);
  op.dtype = dtype_option(options);
  validate(op);
  return op;
}

// A plan file says its own operator and schedule, so options that would be ignored are refused.
void refuse_operator_options(const Options& options) {
  const std::pair<std::string_view, const std::string*> given[] = {
      {"--m", &options.m},
      {"--n", &options.n},
      {"--k", &options.k},
      {"--ranks", &options.ranks},
      {"--dtype", &options.dtype},
      {"--strategy", &options.strategy},
      {"--schedule", &options.schedule}};
  for (const auto& [option, text] : given) {
    if (text->empty()) continue;
    throw UsageError(fmt::format("{} does not go with a plan file: {} says its own; leave it out",
                                 option, quote(options.subject)));
  }
}

}  // namespace

void refuse_overwriting(const Options& options, const std::string& read) {
  for (const std::string* written : {&options.output, &options.perfetto}) {
    if (!written->empty() && is_same_file(*written, read)) {
      throw UsageError(
          fmt::format("{} is read, and the result would take its place; write it to "
                      "another file",
                      quote(read, 200)));
    }
  }
}

Machine resolve_machine(const Options& options, int ranks, const OnGpus& gpus) {
  if (const std::string file = machine_file_of(options.machine); !file.empty()) {
    refuse_overwriting(options, file);
  }
  Machine machine =
      options.machine.empty() ? default_machine(ranks) : load_machine(options.machine);
  limit_sms(machine, cuda::sms_a_rank(machine.sms, std::min(ranks, gpus.ranks_each)));
  limit_sms(machine, gpus.most_sms);
  machine.gpu = gpus.name;
  return machine;
}

std::vector<Operator> resolve_operators(const Options& options) {
  const auto kind = op_kind_from(options.subject);
  if (!options.subject.empty() && !kind) {
    throw UsageError(unknown_word("operator", options.subject, kOperatorNames));
  }
  if (options.shapes.empty()) {
    if (!kind) throw UsageError("an operator with its sizes is missing, or --shapes FILE");
    return {resolve_operator(*kind, options)};
  }
  if (!options.m.empty() || !options.n.empty() || !options.k.empty()) {
    throw UsageError("--m, --n and --k do not go with --shapes: the file has the sizes");
  }
  const int ranks = ranks_option(options);
  const DType dtype = dtype_option(options);
  std::vector<Operator> operators;
  refuse_overwriting(options, options.shapes);
  const std::string content = read_file(options.shapes, kMaxShapesBytes);
  int number = 0;
  for (const std::string_view whole_line : split(content, '\n')) {
    ++number;
    const std::string_view line = whole_line.substr(0, whole_line.find('#'));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    try {
      const Operator op = parse_operator(line, {ranks, dtype});
      if (!kind || op.kind == *kind) operators.push_back(op);
    } catch (const UsageError& error) {
      throw UsageError(
          fmt::format("{} line {}: {}", quote(options.shapes, 200), number, error.what()));
    }
  }
  if (operators.empty()) {
    throw UsageError(fmt::format("{} has no shape{}", quote(options.shapes, 200),
                                 kind ? " of " + std::string(to_string(*kind)) : ""));
  }
  return operators;
}

int ranks_of_all(const std::vector<Operator>& operators) {
  const int ranks = operators.front().ranks;
  for (const Operator& op : operators) {
    if (op.ranks == ranks) continue;
    throw UsageError(
        fmt::format("operators of {} and of {} ranks; those of one sweep or benchmark have as many "
                    "ranks: give each number a file of its own",
                    ranks, op.ranks));
  }
  return ranks;
}

Request resolve(const Options& options, const OnGpus& gpus) {
  if (options.subject.empty()) {
    throw UsageError(
        "an operator or a plan file is missing; for example: stretto run gemm-rs --m 2048 --n 1024 "
        "--k 4096 --ranks 8");
  }
  Request request;
  if (const auto kind = op_kind_from(options.subject)) {
    request.op = request.planned = resolve_operator(*kind, options);
    request.op.m = whole_number("--rows", options.rows, request.op.m, 1, request.op.m);
    request.machine = resolve_machine(options, request.op.ranks, gpus);
    request.choices = resolve_choices(options, request.planned, request.machine);
    request.need_all = needs_all(options);
    return request;
  }
  std::error_code ignored;
  if (!std::filesystem::exists(options.subject, ignored)) {
    if (options.subject.find('/') != std::string::npos) {
      throw UsageError(fmt::format("there is no plan file {}; `stretto plan` makes one",
                                   quote(options.subject, 200)));
    }
    throw UsageError(unknown_word("operator", options.subject, kOperatorNames) +
                     " (nor is there a plan file of that name)");
  }
  refuse_operator_options(options);
  refuse_overwriting(options, options.subject);
  request.file = read_plan_file(options.subject, options.rows);
  request.op = request.planned = request.file->plan.op;
  request.machine = resolve_machine(options, request.op.ranks, gpus);
  return request;
}

namespace {

// What a stage says of the file's plan begins with the file, and the line where one is at fault.
void visit_file(const PlanFile& file, const std::function<void(const NamedPlan&)>& visit) {
  try {
    visit({std::filesystem::path(file.name).filename().string(), nullptr, &file.plan});
  } catch (const EndlessPlan&) {  // has its place
    throw;
  } catch (const WrongBuffer& error) {
    throw UsageError(place(file, file.lines.buffers[error.buffer]) + error.what());
  } catch (const UsageError& error) {
    throw UsageError(file.name + ": " + error.what());
  }
}

}  // namespace

void for_each_plan(const Request& request, Progress& progress,
                   const std::function<void(const NamedPlan&)>& visit) {
  if (request.file) return visit_file(*request.file, visit);
  std::vector<Choice> choices = request.choices;
  size_t visited = 0;
  for (Choice& choice : choices) {
    progress.show("planning " + choice.name,
                  static_cast<double>(visited++) / static_cast<double>(choices.size()));
    try {
      if (choice.refused.empty()) {
        Plan plan = lower(request.planned, choice.schedule, request.machine);
        if (request.op != request.planned) plan = at_rows(plan, request.op.m);
        visit({choice.name, &choice, &plan});
        continue;
      }
    } catch (const UsageError& error) {  // too large for a stage
      if (request.need_all) throw;
      choice.refused = {error.what()};
    }
    visit({choice.name, &choice, nullptr});
  }
  require_served(choices, request.need_all);
}

void PlanRow::describe(const NamedPlan& named) {
  name = named.name;
  if (named.choice != nullptr) {
    schedule = to_string(named.choice->schedule);
    reason = named.choice->reason;
    refused = named.choice->refused;
    must_reproduce = is_deterministic(named.choice->schedule);
  }
  if (named.plan != nullptr && schedule.empty()) schedule = named.plan->schedule;
}

}  // namespace stretto::cli
