// The text of schedules of operators with several products, and its reader.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/text.h"
#include "schedule/coordinates.h"
#include "schedule/one_collector.h"
#include "schedule/only_tiles.h"
#include "schedule/reason_of_names.h"
#include "schedule/row_parts.h"
#include "schedule/scheduled_segments.h"
#include "stretto/error.h"
#include "stretto/schedule.h"

namespace stretto {
namespace {

std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

constexpr std::string_view kSplit = "split=";

std::string_view first_word(std::string_view text) {
  return without_blanks(text.substr(0, text.find(',')));
}

// The split of a system that the words name for all products, as long as a product goes by it: each
// word takes the place of what those before it have said. Else 1, and where runs have fewer rows.
int split_of_names(std::string_view text, const Operator& op, RowCount rows) {
  if (rows != RowCount::fixed) return 1;
  std::set<std::string_view> left;  // products that go by the last word for all
  int split_of_name = 1;
  for (const std::string_view whole : split(text, '/')) {
    const std::string_view part = without_blanks(whole);
    if (part.starts_with(kSplit)) continue;
    if (const size_t colon = part.find(':'); colon != std::string_view::npos) {
      left.erase(without_blanks(part.substr(0, colon)));
      continue;
    }
    const System* const system = find_system(first_word(part));
    const bool has_all_rows = part.find("rows=bucket") == std::string_view::npos;
    split_of_name = system != nullptr && has_all_rows ? split_of(*system, op) : 1;
    for (const OperatorSegment* product : scheduled_products(op)) left.insert(product->name);
  }
  return left.empty() ? 1 : split_of_name;
}

// The split that the words name; where none does that of names.
int read_split(std::string_view text, const Operator& op, RowCount rows,
               std::vector<std::string>& reasons) {
  std::optional<int> split_of_text;
  for (const std::string_view whole : split(text, '/')) {
    const std::string_view part = without_blanks(whole);
    if (!part.starts_with(kSplit)) continue;
    const std::string_view value = part.substr(kSplit.size());
    const std::optional<int64_t> number = int_from(value);
    if (split_of_text) {
      reasons.emplace_back("split is given twice");
    } else if (!number || *number < 1 || *number > kMostParts) {
      reasons.push_back(
          fmt::format("split={}: expected a whole number from 1 to {}", quote(value), kMostParts));
      split_of_text = 1;
    } else {
      split_of_text = static_cast<int>(*number);
      if (std::string why = why_no_split(op, *split_of_text); !why.empty()) {
        reasons.push_back(std::move(why));
        split_of_text = 1;
      }
    }
  }
  return split_of_text ? *split_of_text : split_of_names(text, op, rows);
}

constexpr std::string_view kMoverOfEdge = "mover=";

// "mover=copy-engine"; adds what is wrong with it.
Mover read_edge(const OperatorSegment& segment, std::string_view text,
                std::vector<std::string>& reasons) {
  const std::string& name = segment.name;
  if (text.starts_with(kMoverOfEdge)) {
    const std::string_view value = text.substr(kMoverOfEdge.size());
    if (const std::optional<Mover> mover = value_of<Mover>(value)) return *mover;
    reasons.push_back(fmt::format("{}: {}", name, unknown_word("mover", value, names_of<Mover>())));
  } else if (!segment.is_edge()) {
    reasons.push_back(fmt::format(
        "{} has rows behind a product, which move nothing and have no schedule: leave it out; "
        "beside tiles that are sent one by one, {}:{}epilogue has their lanes take them; found {}",
        name, name, kMoverOfEdge, quote(text)));
  } else {
    reasons.push_back(fmt::format(
        "{} is an edge at no product, which has a mover alone: expected {}:{}copy-engine, found {}",
        name, name, kMoverOfEdge, quote(text)));
  }
  return Mover::epilogue;
}

// Several words may be wrong alike.
std::vector<std::string> each_once(const std::vector<std::string>& reasons) {
  std::vector<std::string> once;
  for (const std::string& reason : reasons) {
    if (std::find(once.begin(), once.end(), reason) == once.end()) once.push_back(reason);
  }
  return once;
}

// Reads words over one another and keeps what is wrong with them.
class WordReader {
 public:
  WordReader(const Operator& op, int split, const Machine& machine,
             std::span<const std::string_view> words)
      : op_(op),
        split_(split),
        of_part_(equal_part(op, split)),
        machine_(machine),
        words_(words),
        products_(scheduled_products(of_part_)),
        edges_(scheduled_edges(of_part_)),
        found_(products_.size()),
        is_named_(products_.size(), false),
        missing_(products_.size()),
        said_(products_.size()),
        movers_(edges_.size()) {
    for (size_t i = 0; i < products_.size(); ++i) said_[i].name = products_[i]->name;
  }

  void read(std::string_view word) {
    const size_t colon = word.find(':');
    if (colon == std::string_view::npos) return read_products(0, products_.size(), word, "");
    const std::string_view name = without_blanks(word.substr(0, colon));
    const std::string_view text = without_blanks(word.substr(colon + 1));
    if (const std::optional<size_t> edge = find(edges_, name)) {
      if (movers_[*edge]) reasons.push_back(fmt::format("{} is given twice", name));
      movers_[*edge] = read_edge(*edges_[*edge], text, reasons);
      return;
    }
    const std::optional<size_t> at = find(products_, name);
    if (!at) {
      reasons.push_back(unknown_word("segment", name, known_names()));
    } else if (is_named_[*at]) {
      reasons.push_back(fmt::format("{} is given twice", name));
    } else {
      is_named_[*at] = true;
      read_products(*at, *at + 1, text, fmt::format("{}: ", name));
    }
  }

  // Once all words were read. Asks that each product has a schedule, where nothing else is wrong.
  void take(OperatorSchedule& schedule) {
    for (const System& system : systems()) {
      std::vector<NamedProduct> lacking;
      for (size_t i = 0; i < found_.size(); ++i) {
        if (missing_[i] != &system) continue;
        lacking.push_back({products_[i]->name, &*products_[i]->product});
      }
      if (!lacking.empty()) reasons.push_back(why_no_point(system, lacking));
    }
    for (size_t i = 0; i < found_.size() && reasons.empty(); ++i) {
      const std::string& name = products_[i]->name;
      if (!found_[i]) {
        reasons.push_back(fmt::format(
            "no schedule for {}: begin with one for all, \"tiles/{}:...\"", name, name));
      } else {
        schedule.products.push_back(*found_[i]);
        if (of_part_.only_product() == nullptr) schedule.names.push_back(name);
      }
    }
    for (size_t i = 0; i < edges_.size(); ++i) {
      // Who sends an edge's rows if nobody says so; rows have a kernel of their own then.
      const bool is_default = edges_[i]->is_edge() && movers_[i] == Mover::epilogue;
      if (movers_[i] && !is_default) schedule.edges.push_back({edges_[i]->name, *movers_[i]});
    }
  }

  std::string reason() const { return reason_of_names(said_); }

  std::vector<std::string> reasons;

 private:
  static std::optional<size_t> find(const std::vector<const OperatorSegment*>& segments,
                                    std::string_view name) {
    const auto found = std::find_if(segments.begin(), segments.end(),
                                    [&](const OperatorSegment* one) { return one->name == name; });
    if (found == segments.end()) return std::nullopt;
    return static_cast<size_t>(found - segments.begin());
  }

  std::vector<std::string_view> known_names() const {
    std::vector<std::string_view> names;
    for (const OperatorSegment* product : products_) names.push_back(product->name);
    for (const OperatorSegment* edge : edges_) names.push_back(edge->name);
    return names;
  }

  void read_products(size_t first, size_t last, std::string_view text, std::string_view prefix) {
    const System* system = find_system(first_word(text));
    for (size_t i = first; i < last; ++i) {
      const Segment& product = *products_[i]->product;
      const NearestPoint* point = system ? nearest_point(*system, product, machine_) : nullptr;
      missing_[i] = point == nullptr ? system : nullptr;
      if (missing_[i] != nullptr) continue;  // a word behind may have one
      try {
        found_[i] = parse_schedule(text, product, machine_, words_);
        if (!says(text, "granularity")) part_by_source(op_, split_, product, *found_[i]);
        said_[i].system = system;
        said_[i].point = point;
        said_[i].why_tiles = says(text, "gemm=") ? ""
                                                 : take_tiles_where_only_these_serve(
                                                       of_part_, *products_[i], *found_[i]);
      } catch (const UsageError& error) {
        reasons.push_back(fmt::format("{}{}", prefix, error.what()));
        break;  // the others would say the same
      }
    }
    // Few rows are multiplied beside low-latency collectives only, so who asks for that by name
    // asks for these, and is refused where they are not to be had.
    if (!says(text, "collectives=") && !says(text, "gemm=few-rows")) collect_alike(first, last);
  }

  // The products of one word, of which each has a schedule.
  void collect_alike(size_t first, size_t last) {
    std::vector<Schedule*> read;
    for (size_t i = first; i < last; ++i) {
      if (!found_[i] || missing_[i] != nullptr) return;
      read.push_back(&*found_[i]);
    }
    take_nccl_where_any_must(std::span(products_).subspan(first, last - first), read);
  }

  static bool says(std::string_view text, std::string_view coordinate) {
    const std::vector<std::string_view> parts = split(text, ',');
    return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) {
      return without_blanks(part).starts_with(coordinate);
    });
  }

  const Operator& op_;
  const int split_;
  const Operator of_part_;
  const Machine& machine_;
  const std::span<const std::string_view> words_;
  const std::vector<const OperatorSegment*> products_, edges_;
  std::vector<std::optional<Schedule>> found_;  // by product
  std::vector<bool> is_named_;                  // by product
  std::vector<const System*> missing_;          // by product: one that has nothing for it
  std::vector<SaidOfProduct> said_;             // by product
  std::vector<std::optional<Mover>> movers_;    // by edge
};

}  // namespace

std::string to_string(const OperatorSchedule& schedule) {
  std::string text;
  if (schedule.split > 1) text = fmt::format("{}{}/", kSplit, schedule.split);
  for (size_t i = 0; i < schedule.products.size(); ++i) {
    if (i > 0) text += "/";
    if (i < schedule.names.size()) text += schedule.names[i] + ":";
    text += to_string(schedule.products[i]);
  }
  for (const EdgeSchedule& edge : schedule.edges) {
    if (!text.empty() && text.back() != '/') text += "/";
    text += fmt::format("{}:{}{}", edge.name, kMoverOfEdge, to_string(edge.mover));
  }
  return text;
}

NamedSchedule read_schedules(std::string_view text, const Operator& op, const Machine& machine,
                             std::span<const std::string_view> words, RowCount rows) {
  NamedSchedule named;
  std::vector<std::string> of_split;
  named.schedule.split = read_split(text, op, rows, of_split);
  WordReader reader(op, named.schedule.split, machine, words);
  reader.reasons = std::move(of_split);
  for (const std::string_view whole : split(text, '/')) {
    const std::string_view word = without_blanks(whole);
    if (!word.starts_with(kSplit)) reader.read(word);
  }
  reader.take(named.schedule);
  if (!reader.reasons.empty()) throw UsageError(join(each_once(reader.reasons), "; "));
  named.reason = reader.reason();
  return named;
}

OperatorSchedule parse_schedules(std::string_view text, const Operator& op, const Machine& machine,
                                 std::span<const std::string_view> words) {
  return read_schedules(text, op, machine, words).schedule;
}

}  // namespace stretto
