// A verdict as text: its kind on the first line, what it needs below, a line each.
#include "serve/verdict.h"

#include <fmt/format.h>

#include <charconv>

#include "core/text.h"
#include "fabric/host_group.h"
#include "stretto/error.h"

namespace stretto {
namespace {

constexpr size_t kMostReason = 4000;

[[noreturn]] void fail() {
  throw SystemError(
      "rank 0 says of an operator's times what this process does not know: start one program on "
      "all ranks");
}

// The text's first line, which is taken from it.
std::string_view take_line(std::string_view& text) {
  const size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text = end == std::string_view::npos ? "" : text.substr(end + 1);
  return line;
}

double number_from(std::string_view line) {
  double number = 0;
  const auto read = std::from_chars(line.data(), line.data() + line.size(), number);
  if (read.ec != std::errc() || read.ptr != line.data() + line.size()) fail();
  return number;
}

std::string to_string(const Verdict::Chosen& chosen) {
  return fmt::format("{}\n{}\n{}\n{}", static_cast<int>(chosen.sureness.by), chosen.sureness.within,
                     chosen.schedule, fabric::one_line(chosen.reason, kMostReason));
}

Verdict::Chosen take_chosen(std::string_view& text) {
  Verdict::Chosen chosen;
  const double by = number_from(take_line(text));
  if (by != 0 && by != 1 && by != 2) fail();
  chosen.sureness.by = static_cast<Evidence>(by);
  chosen.sureness.within = number_from(take_line(text));
  chosen.schedule = take_line(text);
  chosen.reason = take_line(text);
  if (!(chosen.sureness.within >= 0) || chosen.schedule.empty()) fail();
  return chosen;
}

}  // namespace

std::string to_string(const Verdict& verdict) {
  switch (verdict.kind) {
    case Verdict::Kind::keep:
      return "keep";
    case Verdict::Kind::take:
      return "take\n" + to_string(verdict.chosen);
    case Verdict::Kind::measure:
      return fmt::format("measure\n{}\n{}\n{}\n{}", verdict.budget_ms, verdict.chosen_ms,
                         to_string(verdict.chosen), join(verdict.schedules, "\n"));
  }
  return "";
}

Verdict parse_verdict(std::string_view text) {
  Verdict verdict;
  const std::string_view kind = take_line(text);
  if (kind == "keep") return verdict;
  if (kind == "take") {
    verdict.kind = Verdict::Kind::take;
    verdict.chosen = take_chosen(text);
    return verdict;
  }
  if (kind != "measure") fail();
  verdict.kind = Verdict::Kind::measure;
  verdict.budget_ms = number_from(take_line(text));
  verdict.chosen_ms = number_from(take_line(text));
  verdict.chosen = take_chosen(text);
  for (const std::string_view line : split(text, '\n')) {
    if (!line.empty()) verdict.schedules.emplace_back(line);
  }
  if (verdict.schedules.empty() || !(verdict.budget_ms > 0) || !(verdict.chosen_ms >= 0)) fail();
  return verdict;
}

}  // namespace stretto
