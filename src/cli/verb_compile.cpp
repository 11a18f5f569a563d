// stretto compile: builds GPU kernels into the cache, ahead of time and without a GPU: the usual
// ones, or those that the plans of an operator take.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/json.h"
#include "cli/progress.h"
#include "cli/request.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "core/file.h"
#include "core/parallel.h"
#include "core/text.h"
#include "cuda/compiler.h"
#include "cuda/device.h"
#include "cuda/kernel_set.h"
#include "cuda/nvrtc_api.h"
#include "cuda/plan_limits.h"
#include "cuda/shared_gpus.h"
#include "stretto/error.h"
#include "stretto/lower.h"
#include "stretto/tune.h"

namespace stretto::cli {
namespace {

constexpr size_t kSweptMore = 4;  // as many as tune measures of what simulation suggests

struct Row {
  cuda::KernelEntry entry;
  int registers = 0, spilled_bytes = 0;
  double seconds = 0;
  bool cached = false;

  bool spills() const { return spilled_bytes > 0; }
};

std::string arch_of(const Options& options) {
  const std::vector<std::string>& archs = cuda::known_archs();
  if (options.arch.empty()) return archs.front();
  if (std::find(archs.begin(), archs.end(), options.arch) == archs.end()) {
    const std::vector<std::string_view> names(archs.begin(), archs.end());
    throw UsageError(unknown_word("architecture", options.arch, names));
  }
  return options.arch;
}

std::string print(const std::vector<Row>& rows, const std::string& arch) {
  Table table({"kernel", "registers", "spilled", "seconds"});
  table.add({"", "a thread", "bytes", ""});
  for (const Row& row : rows) {
    if (!row.entry.missing.empty()) {
      table.add_remark(row.entry.name, "none for " + arch + ": " + row.entry.missing);
      continue;
    }
    table.add({row.entry.name, fmt::format("{}", row.registers),
               fmt::format("{}", row.spilled_bytes),
               row.cached ? "in the cache" : fmt::format("{:.1f}", row.seconds)});
  }
  return table.print() + fmt::format("\n{}, {}; kept in {}\n", arch, cuda::compiler_version(),
                                     quote(cuda::default_cache_folder()));
}

// Before minutes are spent: nobody compiles ahead of time to keep nothing.
void require_cache() {
  const std::string folder = cuda::default_cache_folder();
  if (folder.empty()) {
    throw SystemError("there is no folder to keep kernels in: set STRETTO_CACHE_PATH");
  }
  std::error_code ignored;  // what is wrong with the folder, writing will say
  std::filesystem::create_directories(folder, ignored);
  check_writable(folder + "/probe");
}

// Of the operators that are given: what their plans take. `sweep` stands for what `tune` measures.
// Schedules that cannot serve are left out, and the reasons kept.
void add_kernels_of(const Operator& op, const Options& options, const std::string& arch,
                    std::vector<cuda::KernelEntry>& set, std::vector<std::string>& refusals) {
  const Machine machine = resolve_machine(
      options, op.ranks, {.ranks_each = cuda::ranks_a_gpu(), .name = cuda::gpu_name()});
  std::vector<Choice> choices;
  if (options.strategies == "sweep") {
    for (const Candidate& candidate : sweep_candidates(op, machine, kSweptMore)) {
      choices.push_back({"a schedule of the sweep", candidate.schedule});
    }
  } else {
    choices =
        resolve_strategies(options.strategies.empty() ? "auto" : options.strategies, op, machine);
  }
  const auto refuse = [&](const Choice& choice, const std::vector<std::string>& reasons) {
    refusals.push_back(fmt::format("{} cannot serve this: {}", choice.name, join(reasons, "; ")));
  };
  for (const Choice& choice : choices) {
    if (!choice.refused.empty()) {
      refuse(choice, choice.refused);
      continue;
    }
    const Plan plan = lower(op, choice.schedule, machine);
    const bool serves = choice.schedule.rows == RowCount::bucket;
    const auto reasons = cuda::why_not_on_cuda(plan, cuda::TileSums(plan), serves);
    if (!reasons.empty()) {
      refuse(choice, reasons);
      continue;
    }
    for (cuda::KernelEntry& entry : cuda::kernels_of(plan, arch, serves)) {
      const auto same = [&](const cuda::KernelEntry& other) { return other.name == entry.name; };
      if (std::none_of(set.begin(), set.end(), same)) set.push_back(std::move(entry));
    }
  }
}

std::vector<cuda::KernelEntry> wanted_kernels(const Options& options, const std::string& arch,
                                              Progress& progress) {
  if (options.subject.empty() && options.shapes.empty()) {
    if (!options.strategies.empty()) {
      throw UsageError("--strategies needs an operator with its sizes, or --shapes FILE");
    }
    return cuda::kernel_set(arch);
  }
  const std::vector<Operator> operators = resolve_operators(options);
  std::vector<cuda::KernelEntry> set;
  std::vector<std::string> refusals;
  for (size_t i = 0; i < operators.size(); ++i) {
    progress.show("planning " + to_string(operators[i]),
                  static_cast<double>(i) / static_cast<double>(operators.size()));
    add_kernels_of(operators[i], options, arch, set, refusals);
  }
  if (set.empty()) throw UsageError(refusals.front());
  return set;
}

Row compile(const cuda::Compiler& compiler, const cuda::KernelEntry& entry,
            const std::string& arch) {
  Row row;
  row.entry = entry;
  if (!entry.missing.empty()) return row;
  const cuda::CompiledKernel kernel = compiler.compile(entry.source, arch);
  if (!kernel.kept) {
    throw SystemError(fmt::format("cannot keep {} in {}: is the disk full?", entry.name,
                                  quote(cuda::default_cache_folder())));
  }
  row.registers = cuda::most_registers(kernel.log);
  row.spilled_bytes = cuda::spilled_bytes(kernel.log);
  row.seconds = kernel.compile_ms / 1000;
  row.cached = kernel.cached;
  return row;
}

// As many at once as there are cores.
std::vector<Row> compile_all(const std::vector<cuda::KernelEntry>& set, const std::string& arch,
                             Progress& progress) {
  const cuda::Compiler compiler;
  std::vector<Row> rows(set.size());
  std::atomic<size_t> done = 0;
  for_each_in_parallel(set.size(), set.size(), [&](size_t i) {
    progress.show("compiling " + set[i].name,
                  static_cast<double>(done) / static_cast<double>(set.size()));
    rows[i] = compile(compiler, set[i], arch);
    ++done;
  });
  return rows;
}

Outcome run(const Options& options) {
  const std::string arch = arch_of(options);
  require_cache();
  std::vector<Row> rows;
  {
    Progress progress;
    // What was asked for is looked at first: it is wrong on a machine without a compiler too.
    const std::vector<cuda::KernelEntry> set = wanted_kernels(options, arch, progress);
    if (!cuda::why_no_compiler().empty()) throw SystemError(cuda::why_no_compiler());
    rows = compile_all(set, arch, progress);
  }
  const bool spills =
      std::any_of(rows.begin(), rows.end(), [](const Row& r) { return r.spills(); });
  const ExitCode code = spills ? kWrong : kGood;
  if (!options.json) return {print(rows, arch), code};
  Json json = json_header("compile");
  json["arch"] = arch;
  json["compiler"] = cuda::compiler_version();
  json["good"] = !spills;
  json["kernels"] = Json::array();
  for (const Row& row : rows) {
    Json kernel = {{"name", row.entry.name}, {"missing", row.entry.missing}};
    if (row.entry.missing.empty()) {
      kernel["registers"] = row.registers;
      kernel["spilled_bytes"] = row.spilled_bytes;
      kernel["seconds"] = row.seconds;
      kernel["cached"] = row.cached;
    }
    json["kernels"].push_back(std::move(kernel));
  }
  return {dump(json), code};
}

}  // namespace

Verb compile_verb() {
  return {"compile", "Build GPU kernels into the cache; needs no GPU",
          [](CLI::App& app, Options& options) {
            add_shapes(app, options);
            add_option(app, "--strategies", options.strategies,
                       "With an operator: whose kernels to build; as for bench, or sweep for "
                       "what tune measures [auto]",
                       "LIST");
            add_option(app, "--arch", options.arch, "sm_90a, sm_89 or sm_80 [sm_90a]", "ARCH");
          },
          run, "stretto compile --arch sm_90a"};
}

}  // namespace stretto::cli
