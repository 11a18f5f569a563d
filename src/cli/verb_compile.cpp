// stretto compile: builds GPU kernels into the cache, ahead of time and without a GPU: the usual
// ones, or those that the plans of an operator take.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/json.h"
#include "cli/kernel_headers.h"
#include "cli/kernels_to_compile.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "core/compile_errors.h"
#include "core/file.h"
#include "core/parallel.h"
#include "core/text.h"
#include "gpu/compiler.h"
#include "gpu/nvrtc_api.h"
#include "stretto/error.h"
#include "tables/kernel_set.h"

namespace stretto::cli {
namespace {

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

std::string print(const std::vector<Row>& rows, const std::vector<RefusedSchedule>& refused,
                  const std::string& arch) {
  Table table({"kernel", "registers", "spilled", "seconds"});
  table.add({"", "a thread", "bytes", ""});
  std::string notes;
  for (const Row& row : rows) {
    if (!row.entry.missing.empty()) {
      notes += wrap(fmt::format("{}: none for {}: {}", row.entry.name, arch, row.entry.missing), 2);
      continue;
    }
    table.add({row.entry.name, fmt::format("{}", row.registers),
               fmt::format("{}", row.spilled_bytes),
               row.cached ? "in the cache" : fmt::format("{:.1f}", row.seconds)});
  }
  for (const RefusedSchedule& one : refused) notes += wrap(to_string(one), 2);
  return table.print() + notes +
         fmt::format("\n{}, {}; kept in {}\n", arch, cuda::compiler_version(),
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
  try {
    check_writable(folder + "/probe");
  } catch (const SystemError& error) {
    throw SystemError(fmt::format(
        "there is no writing to the folder of kernels {} ({}): set STRETTO_CACHE_PATH to one that "
        "can be written",
        quote(folder, 200), error.what()));
  }
}

cuda::CompiledKernel compiled(const cuda::Compiler& compiler, const cuda::KernelEntry& entry,
                              const std::string& arch) {
  if (!entry.is_graphs) return compiler.compile(entry.source, arch);
  try {
    return compiler.compile(entry.source, arch);
  } catch (const cuda::CompileError& error) {
    throw UsageError(fmt::format("{} does not compile for {}: {}", entry.name, arch,
                                 with_advice(first_compile_error(error.log()))));
  }
}

Row compile(const cuda::Compiler& compiler, const cuda::KernelEntry& entry,
            const std::string& arch) {
  Row row;
  row.entry = entry;
  if (!entry.missing.empty()) return row;
  const cuda::CompiledKernel kernel = compiled(compiler, entry, arch);
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
  std::vector<RefusedSchedule> refused;
  {
    Progress progress;
    // What was asked for is looked at first: it is wrong on a machine without a compiler too.
    KernelsToCompile wanted = kernels_to_compile(options, arch, progress);
    if (!cuda::why_no_compiler().empty()) throw SystemError(cuda::why_no_compiler());
    rows = compile_all(wanted.kernels, arch, progress);
    refused = std::move(wanted.refused);
  }
  const bool spills =
      std::any_of(rows.begin(), rows.end(), [](const Row& r) { return r.spills(); });
  const ExitCode code = spills ? kWrong : kGood;
  if (!options.json) return {print(rows, refused, arch), code};
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
  json["refused"] = Json::array();
  for (const RefusedSchedule& one : refused) {
    json["refused"].push_back(
        {{"strategy", one.strategy}, {"operator", to_json(one.op)}, {"refused", one.reasons}});
  }
  return {dump(json), code};
}

}  // namespace

Verb compile_verb() {
  return {"compile", "Build GPU kernels into the cache; needs no GPU",
          [](CLI::App& app, Options& options) {
            add_shapes(app, options);
            add_option(app, "--strategy", options.strategy,
                       "With an operator: whose kernels to build; as for bench, or sweep for "
                       "what tune measures [auto]",
                       "LIST");
            add_flag(app, "--serve", options.serve,
                     "For an operation of up to M rows: of every bucket, for rows that the host "
                     "says and rows in GPU memory");
            add_kernels(app, options, "Options");
            add_option(app, "--arch", options.arch, "sm_90a, sm_89 or sm_80 [sm_90a]", "ARCH");
          },
          run, "stretto compile --arch sm_90a"};
}

}  // namespace stretto::cli
