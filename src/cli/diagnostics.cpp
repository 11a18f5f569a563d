#include "cli/diagnostics.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "check/wording.h"
#include "cli/table.h"
#include "cli/terminal.h"

namespace stretto::cli {
namespace {

// The line of the declaration that a diagnostic is about.
std::optional<uint32_t> declared_at(const PlanFile& file, const Diagnostic& found) {
  if (found.buffer) return file.lines.buffers[*found.buffer];
  if (found.signals) return file.lines.signals[*found.signals];
  return std::nullopt;
}

// The place that a sentence begins with; what is no instruction's fault is a declaration's, or the
// file's that lacks it.
std::string first_place(const PlanFile* file, const Diagnostic& found) {
  if (file == nullptr || found.where) return place(file, found.where);
  const std::optional<uint32_t> line = declared_at(*file, found);
  return line ? place(*file, *line) : file->name + ": ";
}

// "p.txt:72: rank 0 comm 2 instruction 3 (copy #4)"
std::string named(const PlanFile& file, const InstrRef& where) {
  const bool ended = where.pos >= file.plan.lanes[where.lane].instrs.size();
  return place(&file, where) +
         (ended ? describe(file.plan.lanes[where.lane]) : checker::at(file.plan, where));
}

// All that a diagnostic names besides the place that it begins with.
std::vector<std::string> others(const PlanFile& file, const Diagnostic& found) {
  std::vector<std::string> lines;
  if (const auto line = declared_at(file, found); line && found.where) {
    lines.push_back(place(file, *line));
    lines.back() += found.buffer
                        ? fmt::format("buffer {}", file.plan.buffers[*found.buffer].name)
                        : fmt::format("signals {}", file.plan.signals[*found.signals].name);
  }
  std::vector<InstrRef> instrs = found.also;
  if (found.other) instrs.insert(instrs.begin(), *found.other);
  for (const InstrRef& instr : instrs) {
    if (instr != found.where) lines.push_back(named(file, instr));
  }
  return lines;
}

// What diagnostics have in common that say the same of other ranks, tiles and places: all but their
// numbers.
std::string sort_of(const Diagnostic& found) {
  std::string sort(to_string(found.kind));
  for (const char c : found.message) {
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit || sort.back() != '#') sort += is_digit ? '#' : c;
  }
  return sort;
}

}  // namespace

std::string print_diagnostics(const CheckReport& report, const PlanFile* file, size_t limit) {
  constexpr size_t kAlikeShown = 3;
  std::string out;
  std::map<std::string, size_t> seen;
  size_t shown = 0, alike = 0;
  for (const Diagnostic& found : report.diagnostics) {
    if (shown == limit) break;
    if (++seen[sort_of(found)] > kAlikeShown) {
      ++alike;
      continue;
    }
    ++shown;
    out += "  " + wrap(fmt::format("{}{}: {}", first_place(file, found),
                                   paint(Style::bad, to_string(found.kind)), found.message),
                       2);
    if (file != nullptr) {
      for (const std::string& other : others(*file, found)) out += "    " + wrap(other, 4);
    }
    if (!found.hint.empty())
      out += "    " + paint(Style::remark, "hint:") + " " + wrap(found.hint, 10);
  }
  const size_t left = report.diagnostics.size() - shown - alike;
  if (alike > 0) out += fmt::format("  ... and {} of the same sort\n", alike);
  if (left > 0) {
    out += fmt::format("  ... and {}{} more\n", report.truncated ? "at least " : "", left);
  } else if (report.truncated) {
    out += fmt::format("  ... and maybe more: the check stopped after {}\n", shown + alike);
  }
  return out;
}

}  // namespace stretto::cli
