#include "cli/kernel_headers.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "core/file.h"
#include "core/text.h"
#include "stretto/error.h"

namespace stretto::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostHeaderBytes = size_t{1} << 20;

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
    const fs::path path = *folder / kernel.header;
    std::error_code ignored;
    if (!fs::is_regular_file(path, ignored)) return std::shared_ptr<const std::string>();
    return std::make_shared<const std::string>(read_regular_file(path.string(), kMostHeaderBytes));
  });
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
