#include "cli/kernel_headers.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "core/text.h"
#include "stretto/error.h"

namespace stretto::cli {
namespace {

namespace fs = std::filesystem;

std::optional<fs::path> folder_of(const Options& options) {
  std::error_code ignored;
  if (!options.kernels.empty()) {
    if (!fs::is_directory(options.kernels, ignored)) {
      throw UsageError(fmt::format("--kernels {} is no folder: say in which one the headers are",
                                   quote(options.kernels, 200)));
    }
    return options.kernels;
  }
  if (!options.subject.ends_with(".graph")) return std::nullopt;
  return fs::path(options.subject).parent_path();
}

}  // namespace

Operator with_headers(const Operator& op, const Options& options) {
  if (op.kernels.empty()) return op;
  const std::optional<fs::path> folder = folder_of(options);
  if (!folder) return op;
  return with_kernel_sources(op, [&](const EdgeKernel& kernel) {
    return read_kernel_header(folder->string(), kernel.header);
  });
}

std::string with_advice(std::string compile_error) {
  for (const char* missing : {"No such file", "cannot open source file"}) {
    if (compile_error.find(missing) == std::string::npos) continue;
    return compile_error +
           "; a header of your own lies beside the one that includes it, in the graph file's "
           "folder or that of --kernels";
  }
  return compile_error;
}

std::string why_no_header(const EdgeKernel& kernel) {
  return fmt::format(
      "kernel {} is in {}, which is not there: it lies beside the graph file, or --kernels "
      "FOLDER "
      "says where; a plan file always needs --kernels, since the header is C++ that is executed "
      "with your rights",
      kernel.name, quote(kernel.header));
}

}  // namespace stretto::cli
