// The text form of operators with their sizes: "gemm-rs m=2048 n=1024 k=4096 ranks=8 dtype=bf16".
#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "op/graph_text.h"
#include "op/names.h"
#include "op/read_graph.h"
#include "stretto/error.h"
#include "stretto/operator.h"

namespace stretto {

std::string to_string(const Segment& op) {
  return fmt::format("{} m={} n={} k={} ranks={} dtype={}", to_string(op.kind), op.m, op.n, op.k,
                     op.ranks, to_string(op.dtype));
}

std::string to_string(const Operator& op) {
  std::string out = op.name();
  for (const auto& [size, value] : op.sizes) out += fmt::format(" {}={}", size, value);
  return out + fmt::format(" ranks={} dtype={}", op.ranks, to_string(op.dtype));
}

namespace {

constexpr size_t kMostWords = kMostSizes + 3;

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  constexpr std::string_view kBlanks = " \t\r";
  for (size_t at = 0; (at = text.find_first_not_of(kBlanks, at)) != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kBlanks, at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end;
    if (words.size() > kMostWords) break;
  }
  return words;
}

// The sizes of a graph, its ranks and its element type, each once.
class FieldReader {
 public:
  FieldReader(const GraphText& graph, const SegmentDefaults& absent)
      : graph_(graph), ranks_(absent.ranks), dtype_(absent.dtype) {}

  void read(std::string_view word) {
    const size_t equals = word.find('=');
    const std::string key(word.substr(0, equals));
    const bool is_size = std::count(graph_.sizes.begin(), graph_.sizes.end(), key) > 0;
    if (equals == std::string_view::npos || !(is_size || key == "ranks" || key == "dtype")) {
      reasons_.push_back(fmt::format("{} is not one of {}ranks=, dtype=", quote(word), keys()));
      return;
    }
    if (std::count(seen_.begin(), seen_.end(), key)) {
      reasons_.push_back(fmt::format("{} is given twice", key));
      return;
    }
    seen_.push_back(key);
    const std::string_view value = word.substr(equals + 1);
    if (key == "dtype") {
      dtype_ = dtype_from(value);
      if (!dtype_) reasons_.push_back(unknown_dtype(value));
      return;
    }
    const std::optional<int64_t> number = int_from(value);
    if (!number) {
      reasons_.push_back(fmt::format("{}={} is not a whole number", key, quote(value)));
    } else if (is_size) {
      sizes_.emplace_back(key, *number);
    } else if (*number < 1 || *number > kMaxRanks) {
      reasons_.push_back(
          fmt::format("ranks is {}; it must be between 1 and {}", *number, kMaxRanks));
    } else {
      ranks_ = static_cast<int>(*number);
    }
  }

  Operator take(std::shared_ptr<const GraphText> text) {
    const auto was_seen = [&](std::string_view key) {
      return std::find(seen_.begin(), seen_.end(), key) != seen_.end();
    };
    for (const std::string& size : graph_.sizes) {
      if (!was_seen(size)) reasons_.push_back(size + "= is missing");
    }
    if (!ranks_ && !was_seen("ranks")) reasons_.push_back("ranks= is missing");
    if (!dtype_ && !was_seen("dtype")) reasons_.push_back("dtype= is missing");
    if (!reasons_.empty()) {
      throw with_faults_of(std::move(text), UsageError(join(reasons_, "; ")));
    }
    return make_graph(std::move(text), sizes_, *ranks_, *dtype_);
  }

 private:
  std::string keys() const {
    std::string keys;
    for (const std::string& size : graph_.sizes) keys += size + "=, ";
    return keys;
  }

  const GraphText& graph_;
  std::optional<int> ranks_;
  std::optional<DType> dtype_;
  Sizes sizes_;
  std::vector<std::string> seen_, reasons_;
};

}  // namespace

Operator parse_operator(std::string_view words, const SegmentDefaults& absent,
                        std::shared_ptr<const GraphText> text) {
  const std::vector<std::string_view> all = words_of(words);
  if (all.empty()) {
    throw UsageError(
        "an empty operator; expected \"gemm-rs m=2048 n=1024 k=4096 ranks=8 dtype=bf16\"");
  }
  if (all.size() > kMostWords) {
    throw UsageError(
        fmt::format("{} says more than an operator has: NAME SIZE=VALUE... ranks=R "
                    "dtype=TYPE",
                    quote(words)));
  }
  if (!text) text = find_graph(all[0]);
  if (!text || text->name != all[0]) {
    std::vector<std::string_view> known;
    for (const auto& graph : known_graphs()) known.push_back(graph->name);
    if (text) known = {text->name};
    throw UsageError(unknown_word("operator", all[0], known));
  }
  FieldReader reader(*text, absent);
  for (size_t i = 1; i < all.size(); ++i) reader.read(all[i]);
  return reader.take(std::move(text));
}

Segment parse_segment(std::string_view text, const SegmentDefaults& absent) {
  const Operator op = parse_operator(text, absent);
  if (const Segment* only = op.only_product()) return *only;
  throw UsageError(fmt::format("{} is more than one product", op.name()));
}

}  // namespace stretto
