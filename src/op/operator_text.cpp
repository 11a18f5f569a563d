// The text form of operators: "gemm-rs m=2048 n=1024 k=4096 ranks=8 dtype=bf16".
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "core/text.h"
#include "op/names.h"
#include "stretto/error.h"
#include "stretto/operator.h"

namespace stretto {

std::string to_string(const Operator& op) {
  return fmt::format("{} m={} n={} k={} ranks={} dtype={}", to_string(op.kind), op.m, op.n, op.k,
                     op.ranks, to_string(op.dtype));
}

namespace {

constexpr std::array<std::string_view, 5> kKeys = {"m", "n", "k", "ranks", "dtype"};

struct Fields {
  Operator op;
  std::array<bool, kKeys.size()> seen{};
  std::vector<std::string> reasons;
};

void read_number(Fields& fields, std::string_view key, std::string_view value) {
  const std::optional<int64_t> number = int_from(value);
  if (!number) {
    fields.reasons.push_back(fmt::format("{}={} is not a whole number", key, quote(value)));
    return;
  }
  if (key == "m") fields.op.m = *number;
  if (key == "n") fields.op.n = *number;
  if (key == "k") fields.op.k = *number;
  if (key == "ranks") {
    if (*number < std::numeric_limits<int>::min() || *number > std::numeric_limits<int>::max()) {
      fields.reasons.push_back(
          fmt::format("ranks is {}; it must be between 1 and {}", *number, kMaxRanks));
    } else {
      fields.op.ranks = static_cast<int>(*number);
    }
  }
}

void read_field(Fields& fields, std::string_view word) {
  const size_t equals = word.find('=');
  const std::string_view key = word.substr(0, equals);
  size_t index = 0;
  while (index < kKeys.size() && kKeys[index] != key) ++index;
  if (equals == std::string_view::npos || index == kKeys.size()) {
    fields.reasons.push_back(
        fmt::format("{} is not one of m=, n=, k=, ranks=, dtype=", quote(word)));
    return;
  }
  if (fields.seen[index]) {
    fields.reasons.push_back(fmt::format("{} is given twice", key));
    return;
  }
  fields.seen[index] = true;
  const std::string_view value = word.substr(equals + 1);
  if (key != "dtype") return read_number(fields, key, value);
  if (const std::optional<DType> dtype = dtype_from(value)) {
    fields.op.dtype = *dtype;
  } else {
    fields.reasons.push_back(unknown_word("dtype", value, kDTypeNames));
  }
}

}  // namespace

Operator parse_operator(std::string_view text, const OperatorDefaults& absent) {
  std::vector<std::string_view> words;
  constexpr std::string_view kBlanks = " \t\r";
  for (size_t at = 0; (at = text.find_first_not_of(kBlanks, at)) != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kBlanks, at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end;
    if (words.size() > kKeys.size() + 1) {
      throw UsageError(fmt::format("{} says more than an operator has: {}", quote(text),
                                   "KIND m=M n=N k=K ranks=R dtype=TYPE"));
    }
  }
  if (words.empty()) {
    throw UsageError(
        "an empty operator; expected \"gemm-rs m=2048 n=1024 k=4096 ranks=8 dtype=bf16\"");
  }
  Fields fields;
  if (const std::optional<OpKind> kind = op_kind_from(words[0])) {
    fields.op.kind = *kind;
  } else {
    fields.reasons.push_back(unknown_word("operator", words[0], kOperatorNames));
  }
  for (size_t i = 1; i < words.size(); ++i) read_field(fields, words[i]);
  const auto take = [&](std::string_view key, const auto& value, auto& field) {
    bool& seen = fields.seen[std::find(kKeys.begin(), kKeys.end(), key) - kKeys.begin()];
    if (seen || !value) return;
    field = *value;
    seen = true;
  };
  take("ranks", absent.ranks, fields.op.ranks);
  take("dtype", absent.dtype, fields.op.dtype);
  for (size_t i = 0; i < kKeys.size(); ++i) {
    if (!fields.seen[i]) fields.reasons.push_back(fmt::format("{}= is missing", kKeys[i]));
  }
  if (!fields.reasons.empty()) throw UsageError(join(fields.reasons, "; "));
  validate(fields.op);
  return fields.op;
}

}  // namespace stretto
