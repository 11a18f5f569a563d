// A plan that was read from a file, and what says where in the file something of it stands.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "stretto/plan.h"

namespace stretto::cli {

struct PlanFile {
  std::string path;  // as the user gave it
  std::string name;  // the same in one line
  Plan plan;
  PlanLines lines;
  // Of a run of fewer rows: the file as it stands. Null: `plan` is that.
  std::shared_ptr<const PlanFile> whole = nullptr;
};

// Throws UsageError with line and column, SystemError. With `rows` (empty: all) the plan is that of
// a run of so many rows, which has the lines that are left of the file's.
PlanFile read_plan_file(const std::string& name, const std::string& rows);

// What begins a sentence about a line: "p.txt:60: ".
std::string place(const PlanFile& file, uint32_t line);
// The same of an instruction; empty where the plan is from no file, or no instruction is meant.
std::string place(const PlanFile* file, const std::optional<InstrRef>& where);

}  // namespace stretto::cli
