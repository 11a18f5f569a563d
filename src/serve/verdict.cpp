// A verdict as text: its kind on the first line, what it needs below.
#include <fmt/format.h>

#include <charconv>

#include "core/text.h"
#include "serve/learning.h"
#include "stretto/error.h"

namespace stretto {
namespace {

[[noreturn]] void fail() {
  throw SystemError(
      "rank 0 says of an operator's times what this process does not know: start one program on "
      "all ranks");
}

}  // namespace

std::string to_string(const Verdict& verdict) {
  switch (verdict.kind) {
    case Verdict::Kind::keep:
      return "keep";
    case Verdict::Kind::known: {
      Tuning one;
      one.add(*verdict.known);
      return "known\n" + print_tuning(one);
    }
    case Verdict::Kind::measure:
      return fmt::format("measure\n{}\n{}", verdict.budget_ms, join(verdict.schedules, "\n"));
  }
  return "";
}

Verdict parse_verdict(std::string_view text) {
  Verdict verdict;
  const size_t end = text.find('\n');
  const std::string_view kind = text.substr(0, end);
  const std::string_view rest = end == std::string_view::npos ? "" : text.substr(end + 1);
  if (kind == "keep") return verdict;
  if (kind == "known") {
    verdict.kind = Verdict::Kind::known;
    try {
      const Tuning one = parse_tuning(rest, "what rank 0 knows");
      if (one.operators().size() != 1) fail();
      verdict.known = one.operators().front();
    } catch (const UsageError&) {
      fail();
    }
    return verdict;
  }
  if (kind != "measure") fail();
  verdict.kind = Verdict::Kind::measure;
  bool is_budget = true;
  for (const std::string_view line : split(rest, '\n')) {
    if (!is_budget) {
      verdict.schedules.emplace_back(line);
      continue;
    }
    is_budget = false;
    const auto read = std::from_chars(line.data(), line.data() + line.size(), verdict.budget_ms);
    if (read.ec != std::errc() || read.ptr != line.data() + line.size()) fail();
  }
  if (verdict.schedules.empty() || !(verdict.budget_ms > 0)) fail();
  return verdict;
}

}  // namespace stretto
