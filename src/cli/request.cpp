#include "cli/request.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <limits>

#include "cli/kernel_headers.h"
#include "cli/nearest.h"
#include "cli/operator_words.h"
#include "cli/progress.h"
#include "core/file.h"
#include "core/parallel.h"
#include "core/text.h"
#include "gpu/shared_gpus.h"
#include "machine/find_machine.h"
#include "op/names.h"
#include "op/read_graph.h"
#include "stretto/emulate.h"
#include "stretto/error.h"
#include "stretto/lower.h"
#include "stretto/serve.h"
#include "stretto/simulate.h"

namespace stretto::cli {
namespace {

constexpr size_t kMaxShapesBytes = size_t{1} << 20;

std::vector<std::string> operator_names() {
  std::vector<std::string> names;
  for (const auto& graph : known_graphs()) names.push_back(name_of(*graph));
  return names;
}

// A graph of the user's own: a file that is called NAME.graph. Null: it is none. What is wrong with
// it is told with what its sizes show.
std::shared_ptr<const GraphText> graph_of_file(const std::string& path) {
  constexpr size_t kMostBytes = size_t{1} << 20;
  constexpr std::string_view kEnding = ".graph";
  if (!std::string_view(path).ends_with(kEnding)) return nullptr;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    throw UsageError(fmt::format(
        "there is no graph file {}; docs/graph-format.md says how to write one", quote(path, 200)));
  }
  return read_graph(read_regular_file(path, kMostBytes), path);
}

bool is_file(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// For verbs that make plans of an operator and take none: "t.plan" is no slip in its name.
[[noreturn]] void refuse_where_plans_are_made(const std::string& subject) {
  if (!is_file(subject) && !subject.ends_with(".plan")) {
    throw UsageError(unknown_of_many("operator", subject, operator_names()));
  }
  throw UsageError(fmt::format(
      "{} is no operator and no graph file, of which plans are made here; a plan file goes with "
      "run, check, simulate and report",
      quote(subject, 200)));
}

// A plan file says its own operator and schedule, so options that would be ignored are refused, and
// words behind it that are no files.
void refuse_operator_options(const Options& options) {
  for (const std::string& word : options.sizes) {
    if (is_file(word)) continue;
    const bool names_file =
        word.find_first_of("./") != std::string::npos && word.find('=') == std::string::npos;
    throw UsageError(
        names_file
            ? fmt::format("there is no plan file {}; `stretto plan` makes one", quote(word, 200))
            : fmt::format("{} does not go with a plan file: {} says its own; leave it out",
                          quote(word), quote(options.subject)));
  }
  const std::pair<std::string_view, const std::string*> given[] = {
      {"--m", &options.m},
      {"--n", &options.n},
      {"--k", &options.k},
      {"--ranks", &options.ranks},
      {"--dtype", &options.dtype},
      {"--layer", &options.layer},
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

namespace {

// A shipped operator, or one of the user's own.
std::shared_ptr<const GraphText> graph_named(const std::string& subject) {
  std::shared_ptr<const GraphText> graph = find_graph(subject);
  return graph ? graph : graph_of_file(subject);
}

}  // namespace

std::vector<Operator> resolve_operators(const Options& options) {
  const std::string subject = operator_named(options);
  std::shared_ptr<const GraphText> graph;
  if (!subject.empty()) {
    graph = graph_named(subject);
    if (!graph) refuse_where_plans_are_made(subject);
  }
  if (options.shapes.empty()) {
    if (!graph) throw UsageError("an operator with its sizes is missing, or --shapes FILE");
    return {with_headers(resolve_operator(std::move(graph), options), options)};
  }
  if (graph) refuse_faults(graph);
  if (!options.m.empty() || !options.n.empty() || !options.k.empty() || !options.sizes.empty() ||
      !options.layer.empty()) {
    throw UsageError("--m, --n, --k and --layer do not go with --shapes: the file has the sizes");
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
      Operator op = parse_operator(line, {ranks, dtype});
      if (!graph || op.name() == name_of(*graph)) operators.push_back(std::move(op));
    } catch (const UsageError& error) {
      throw UsageError(
          fmt::format("{} line {}: {}", quote(options.shapes, 200), number, error.what()));
    }
  }
  if (operators.empty()) {
    throw UsageError(fmt::format("{} has no shape{}", quote(options.shapes, 200),
                                 graph ? " of " + name_of(*graph) : ""));
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

namespace {

// The first word's, and those beside it.
std::vector<PlanFile> read_plan_files(const Options& options) {
  std::vector<std::string> paths = {options.subject};
  paths.insert(paths.end(), options.sizes.begin(), options.sizes.end());
  std::vector<PlanFile> files;
  for (const std::string& path : paths) {
    refuse_overwriting(options, path);
    if (std::count(paths.begin(), paths.end(), path) > 1) {
      throw UsageError(fmt::format("{} stands there twice; name each plan once", quote(path, 200)));
    }
    files.push_back(read_plan_file(path, options.rows));
    files.back().plan.op = with_headers(files.back().plan.op, options);
    const Plan &first = files.front().plan, &plan = files.back().plan;
    if (plan.op == first.op) continue;
    throw UsageError(fmt::format(
        "{} is of {}, {} of {}: plans beside each other are of one operator", files.front().name,
        to_string(first.op), files.back().name, to_string(plan.op)));
  }
  return files;
}

}  // namespace

Request resolve(const Options& options, const OnGpus& gpus) {
  const std::string subject = operator_named(options);
  if (subject.empty()) {
    throw UsageError(
        "an operator or a plan file is missing; for example: stretto run gemm-rs --m 2048 --n 1024 "
        "--k 4096 --ranks 8");
  }
  Request request;
  if (std::shared_ptr<const GraphText> graph = graph_named(subject)) {
    request.op = request.planned =
        with_headers(resolve_operator(std::move(graph), options), options);
    if (!options.rows.empty()) {
      const int64_t most = request.op.rows();
      request.op = with_rows(request.op, size_number("--rows", options.rows, most, most));
    }
    request.machine = resolve_machine(options, request.op.ranks, gpus);
    request.choices = resolve_choices(options, request.planned, request.machine);
    request.need_all = needs_all(options);
    return request;
  }
  if (!is_file(options.subject)) {
    const bool names_file =
        options.subject.find('/') != std::string::npos || options.subject.ends_with(".plan");
    if (names_file) {
      throw UsageError(fmt::format("there is no plan file {}; `stretto plan` makes one",
                                   quote(options.subject, 200)));
    }
    if (options.subject == "help") {
      throw UsageError("'help' is no operator; options are listed by --help and stretto help VERB");
    }
    throw UsageError(unknown_of_many("operator", options.subject, operator_names()) +
                     " (nor is there a plan file of that name)");
  }
  refuse_operator_options(options);
  request.files = read_plan_files(options);
  request.op = request.planned = request.files.front().plan.op;
  request.machine = resolve_machine(options, request.op.ranks, gpus);
  return request;
}

namespace {

std::string last_name(const PlanFile& file) {
  return std::filesystem::path(file.name).filename().string();
}

// How tables call a file: without its folder where no other is called so.
std::string short_name(const PlanFile& file, const std::vector<PlanFile>& files) {
  const std::string last = last_name(file);
  const auto alike = [&](const PlanFile& other) { return last_name(other) == last; };
  return std::count_if(files.begin(), files.end(), alike) == 1 ? last : file.name;
}

// What a stage says of the file's plan begins with the file, and the line where one is at fault.
void visit_file(size_t at, const std::vector<PlanFile>& files,
                const std::function<void(const NamedPlan&)>& visit) {
  const PlanFile& file = files[at];
  try {
    const Plan* const whole = file.whole == nullptr ? nullptr : &file.whole->plan;
    visit({short_name(file, files), nullptr, &file, &file.plan, whole, at});
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
                   const std::function<void(const NamedPlan&)>& visit, size_t threads) {
  for_each_in_parallel(request.files.size(), threads,
                       [&](size_t i) { visit_file(i, request.files, visit); });
  if (!request.files.empty()) return;
  std::vector<Choice> choices = request.choices;
  std::atomic<size_t> visited = 0;
  for_each_in_parallel(choices.size(), threads, [&](size_t i) {
    Choice& choice = choices[i];
    progress.show("planning " + choice.name,
                  static_cast<double>(visited++) / static_cast<double>(choices.size()));
    try {
      if (choice.refused.empty()) {
        const Plan plan = lower(request.planned, choice.schedule, request.machine);
        if (request.op == request.planned) {
          visit({choice.name, &choice, nullptr, &plan, nullptr, i});
        } else {
          const Plan run = at_rows(plan, request.op.rows());
          visit({choice.name, &choice, nullptr, &run, &plan, i});
        }
        return;
      }
    } catch (const UsageError& error) {  // too large for a stage
      if (request.need_all) throw;
      choice.refused = {error.what()};
    }
    visit({choice.name, &choice, nullptr, nullptr, nullptr, i});
  });
  require_served(choices, request.need_all);
}

void PlanRow::describe(const NamedPlan& named) {
  name = named.name;
  file = named.file;
  if (named.choice != nullptr) {
    schedule = to_string(named.choice->schedule);
    reason = named.choice->reason;
    refused = named.choice->refused;
    must_reproduce = is_deterministic(named.choice->schedule);
  }
  if (named.plan != nullptr && schedule.empty()) schedule = named.plan->schedule;
}

}  // namespace stretto::cli
