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

// Whether --m, --n and --k are all that it needs.
bool options_name_sizes_of(const GraphText& graph) {
  const std::vector<std::string>& sizes = sizes_of(graph);
  return std::all_of(sizes.begin(), sizes.end(), [](const std::string& size) {
    return size == "m" || size == "n" || size == "k";
  });
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

std::vector<std::string_view> operator_names() {
  std::vector<std::string_view> names;
  for (const auto& graph : known_graphs()) names.push_back(name_of(*graph));
  return names;
}

// "gemm-rs --m 2048 --n 1024 --k 4096 --ranks 8": how to ask for a graph.
std::string example_of(const GraphText& graph) {
  constexpr std::pair<std::string_view, int> kUsual[] = {{"m", 2048}, {"n", 1024}, {"k", 4096}};
  std::string example = name_of(graph);
  const bool has_options = options_name_sizes_of(graph);
  for (const std::string& size : sizes_of(graph)) {
    const auto usual = std::find_if(std::begin(kUsual), std::end(kUsual),
                                    [&](const auto& one) { return one.first == size; });
    const int value = usual == std::end(kUsual) ? 1024 : usual->second;
    example +=
        has_options ? fmt::format(" --{} {}", size, value) : fmt::format(" {}={}", size, value);
  }
  return example + " --ranks 8";
}

// Sizes are words behind the operator, name=value; --m, --n and --k name those that are called so.
Operator resolve_operator(std::shared_ptr<const GraphText> graph, const Options& options) {
  const std::vector<std::string>& names = sizes_of(*graph);
  Sizes sizes;
  const auto give = [&](std::string_view name, int64_t value) {
    for (const auto& [known, before] : sizes) {
      if (known == name) throw UsageError(fmt::format("{} is given twice", name));
    }
    sizes.emplace_back(name, value);
  };
  for (const auto& [name, text] :
       {std::pair{"m", &options.m}, std::pair{"n", &options.n}, std::pair{"k", &options.k}}) {
    if (text->empty()) continue;
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      throw UsageError(
          fmt::format("{} has no size {}; it has {}", name_of(*graph), name, join(names, ", ")));
    }
    give(name, size_option(fmt::format("--{}", name), *text));
  }
  for (const std::string& word : options.sizes) {
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    if (equals == std::string::npos || std::find(names.begin(), names.end(), name) == names.end()) {
      throw UsageError(fmt::format("{} is no size of {}: give {}=VALUE", quote(word),
                                   name_of(*graph), join(names, "=VALUE, ")));
    }
    give(name, size_option(name, std::string_view(word).substr(equals + 1)));
  }
  std::vector<std::string> missing;
  for (const std::string& name : names) {
    const auto given = [&](const auto& size) { return size.first == name; };
    if (std::none_of(sizes.begin(), sizes.end(), given)) {
      missing.push_back(options_name_sizes_of(*graph) ? "--" + name : name + "=");
    }
  }
  if (!missing.empty()) {
    throw UsageError(fmt::format("{} needs its sizes: {} missing; for example: {}", name_of(*graph),
                                 join(missing, ", "), example_of(*graph)));
  }
  return make_graph(std::move(graph), sizes, ranks_option(options), dtype_option(options));
}

// A graph of the user's own: a file that is called NAME.graph. Null: it is none.
std::shared_ptr<const GraphText> read_graph(const std::string& path) {
  constexpr size_t kMostBytes = size_t{1} << 20;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return nullptr;
  constexpr std::string_view kEnding = ".graph";
  if (!std::string_view(path).ends_with(kEnding)) return nullptr;
  return parse_graph(read_file(path, kMostBytes), path);
}

// A plan file says its own operator and schedule, so options that would be ignored are refused.
void refuse_operator_options(const Options& options) {
  if (!options.sizes.empty()) {
    throw UsageError(fmt::format("{} does not go with a plan file: {} says its own; leave it out",
                                 quote(options.sizes[0]), quote(options.subject)));
  }
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

std::vector<Segment> resolve_operators(const Options& options) {
  const auto kind = product_kind_from(options.subject);
  if (!options.subject.empty() && !kind) {
    throw UsageError(unknown_word("operator", options.subject, product_kind_names()));
  }
  if (kind && Segment{*kind}.exchanges()) {
    throw UsageError(fmt::format("{} has no library path to be measured against: take {}",
                                 options.subject,
                                 "ag-gemm, gemm-rs or gemm-ar, or `stretto simulate` it"));
  }
  if (options.shapes.empty()) {
    if (!kind) throw UsageError("an operator with its sizes is missing, or --shapes FILE");
    return {*resolve_operator(find_graph(options.subject), options).only_product()};
  }
  if (!options.m.empty() || !options.n.empty() || !options.k.empty() || !options.sizes.empty()) {
    throw UsageError("--m, --n and --k do not go with --shapes: the file has the sizes");
  }
  const int ranks = ranks_option(options);
  const DType dtype = dtype_option(options);
  std::vector<Segment> operators;
  refuse_overwriting(options, options.shapes);
  const std::string content = read_file(options.shapes, kMaxShapesBytes);
  int number = 0;
  for (const std::string_view whole_line : split(content, '\n')) {
    ++number;
    const std::string_view line = whole_line.substr(0, whole_line.find('#'));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    try {
      const Segment op = parse_segment(line, {ranks, dtype});
      if (op.exchanges()) {
        throw UsageError(
            fmt::format("{} has no library path to be measured against", to_string(op.kind)));
      }
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

int ranks_of_all(const std::vector<Segment>& operators) {
  const int ranks = operators.front().ranks;
  for (const Segment& op : operators) {
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
  std::shared_ptr<const GraphText> graph = find_graph(options.subject);
  if (!graph) graph = read_graph(options.subject);
  if (graph) {
    request.op = request.planned = resolve_operator(std::move(graph), options);
    if (!options.rows.empty()) {
      const int64_t most = request.op.rows();
      request.op = with_rows(request.op, whole_number("--rows", options.rows, most, 1, most));
    }
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
    throw UsageError(unknown_word("operator", options.subject, operator_names()) +
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
        if (!(request.op == request.planned)) plan = at_rows(plan, request.op.rows());
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
