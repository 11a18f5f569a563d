// stretto compile: builds the GPU kernels into the cache, ahead of time and without a GPU.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/json.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "core/file.h"
#include "core/text.h"
#include "cuda/compiler.h"
#include "cuda/kernel_set.h"
#include "cuda/nvrtc_api.h"
#include "stretto/error.h"

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

Outcome run(const Options& options) {
  const std::string arch = arch_of(options);
  require_cache();
  if (!cuda::why_no_compiler().empty()) throw SystemError(cuda::why_no_compiler());
  const std::vector<cuda::KernelEntry> set = cuda::kernel_set(arch);
  const cuda::Compiler compiler;
  std::vector<Row> rows;
  {
    Progress progress;
    for (const cuda::KernelEntry& entry : set) {
      progress.show("compiling " + entry.name,
                    static_cast<double>(rows.size()) / static_cast<double>(set.size()));
      Row row;
      row.entry = entry;
      if (entry.missing.empty()) {
        const cuda::CompiledKernel kernel = compiler.compile(entry.source, arch);
        row.registers = cuda::most_registers(kernel.log);
        row.spilled_bytes = cuda::spilled_bytes(kernel.log);
        row.seconds = kernel.compile_ms / 1000;
        row.cached = kernel.cached;
        if (!kernel.kept) {
          throw SystemError(fmt::format("cannot keep {} in {}: is the disk full?", entry.name,
                                        quote(cuda::default_cache_folder())));
        }
      }
      rows.push_back(std::move(row));
    }
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
  return {"compile", "Build the GPU kernels into the cache; needs no GPU",
          [](CLI::App& app, Options& options) {
            add_option(app, "--arch", options.arch, "sm_90a, sm_89 or sm_80 [sm_90a]", "ARCH");
          },
          run, "stretto compile --arch sm_90a"};
}

}  // namespace stretto::cli
