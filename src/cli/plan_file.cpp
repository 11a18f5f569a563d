#include "cli/plan_file.h"

#include <fmt/format.h>

#include "cli/options.h"
#include "core/file.h"
#include "core/text.h"
#include "stretto/error.h"
#include "stretto/serve.h"

namespace stretto::cli {
namespace {

constexpr size_t kMaxPlanBytes = size_t{1} << 30;

}  // namespace

PlanFile read_plan_file(const std::string& name, const std::string& rows) {
  PlanFile file{name, in_one_line(name), {}, {}};
  file.plan = parse_plan(read_file(name, kMaxPlanBytes), file.name, &file.lines);
  if (!rows.empty()) {
    const int64_t run_rows = whole_number("--rows", rows, 0, 1, file.plan.op.rows());
    if (run_rows < file.plan.op.rows()) file.whole = std::make_shared<const PlanFile>(file);
    try {
      file.plan = at_rows(file.plan, run_rows, &file.lines);
    } catch (const UsageError& error) {
      throw UsageError(file.name + ": " + error.what());
    }
  }
  return file;
}

std::string place(const PlanFile& file, uint32_t line) {
  return fmt::format("{}:{}: ", file.name, line);
}

std::string place(const PlanFile* file, const std::optional<InstrRef>& where) {
  return file == nullptr || !where ? "" : place(*file, file->lines.of(*where));
}

}  // namespace stretto::cli
