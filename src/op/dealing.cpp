#include "op/dealing.h"

#include <fmt/format.h>

#include <algorithm>

#include "op/dealt_columns.h"
#include "stretto/segment.h"

namespace stretto {

void Dealing::add_team(const TeamText& text) {
  const auto value = text.ranks.value([&](std::string_view name) { return *graph_.size(name); });
  const int64_t size = value.value_or(0);
  const int ranks = graph_.ranks;
  int& known = teams_[text.name];  // as all ranks, so that nothing else is wrong with it
  if (size < 1 || size > ranks || ranks % size != 0) {
    std::string sizes;
    for (int each = 1; each <= ranks; ++each) {
      if (ranks % each == 0) sizes += fmt::format("{}{}", sizes.empty() ? "" : ", ", each);
    }
    const std::string given = value ? std::to_string(*value) : text.ranks.text();
    return refuse(text.place,
                  fmt::format("team {} of {} ranks, and {} ranks are whole teams of: {}", text.name,
                              given, ranks, sizes));
  }
  if (size < ranks) known = static_cast<int>(size);
}

std::string Dealing::teams_of(int team) {
  return team == 0 ? "all ranks" : fmt::format("teams of {} ranks", team);
}

void Dealing::check_team_rows(int64_t rows, TextPlace place, const std::string& cause) {
  const int64_t left = rows % graph_.ranks;
  if (left == 0 || !not_dealt_.insert(cause).second) return;
  const int64_t below = rows - left;
  refuse(place, fmt::format("{} rows are dealt to teams, as many to each of {} ranks: take {}{}",
                            rows, graph_.ranks, below > 0 ? fmt::format("{} or ", below) : "",
                            below + graph_.ranks));
}

bool Dealing::is_parameter_of_any(const std::string& tensor, bool is) const {
  return std::any_of(binding_.text.stages.begin(), binding_.text.stages.end(),
                     [&](const StageText& stage) {
                       for (size_t i = 0; i < stage.in.size(); ++i) {
                         if (stage.in[i] == tensor && is_parameter(stage.kind, i) == is)
                           return true;
                       }
                       return false;
                     });
}

// Rows of weights are dealt as the columns that they make.
void Dealing::check_has_one_use(const Tensor& tensor, const InputText& input) {
  const bool is_even = tensor.rows % graph_.ranks == 0 || input.held != Held::rows;
  if (is_even || !is_parameter_of_any(input.name, true) || !is_parameter_of_any(input.name, false))
    return;
  refuse(input.place, fmt::format("{} is a weight, whose rows are dealt as columns are, and has "
                                  "rows besides: give it as two inputs, or {} or {} rows",
                                  input.name, tensor.rows / graph_.ranks * graph_.ranks,
                                  (tensor.rows / graph_.ranks + 1) * graph_.ranks));
}

void Dealing::give_to_teams(Tensor& tensor, const InputText& input, const Causes& causes) {
  const int team = team_named(input.team);
  if (team == 0) return check_has_one_use(tensor, input);
  if (tensor.matrices > 1 || input.held == Held::experts || input.held == Held::routed ||
      is_index(tensor.dtype)) {
    return refuse(input.place, fmt::format("{} is of {}: stacks and what goes by them are of all "
                                           "ranks",
                                           input.name, teams_of(team)));
  }
  const bool is_weight = is_parameter_of_any(input.name, true);
  if (is_weight && is_parameter_of_any(input.name, false)) {
    return refuse(input.place,
                  fmt::format("{} is a weight, which every team has, and has rows, which are "
                              "dealt to teams: give it as two inputs",
                              input.name));
  }
  if (!is_weight) check_team_rows(tensor.rows, input.place, causes.rows);
  if (!is_weight && input.held == Held::rows) return;  // as all ranks have them
  tensor.team = team;
  tensor.deals_rows = !is_weight;
}

bool Dealing::is_of_team(const Tensor& tensor, int team, bool is_weight, Held needed) {
  if (tensor.team == team) return true;
  if (is_weight) return tensor.team == 0 && tensor.held == Held::whole;
  return needed == Held::rows || (tensor.team == 0 && tensor.held == Held::rows);
}

void Dealing::check_divides(const Tensor& tensor, Held held, TextPlace place,
                            const Causes& causes) {
  if (held == Held::cols && !are_shared(tensor, tensor.cols)) {
    refuse_share(tensor, tensor.cols, "columns", place, causes.cols);
  }
  if (held == Held::experts && !each_has_one(tensor.matrices) &&
      not_shared_.insert(causes.matrices).second) {
    refuse(place,
           fmt::format("{} matrices of {} are dealt to {} ranks in blocks of {}, which leaves none "
                       "for the last: take {}",
                       tensor.matrices, tensor.name, graph_.ranks,
                       RowShards{tensor.matrices, graph_.ranks}.block(),
                       near_matrices(tensor.matrices, causes.matrices)));
  }
}

bool Dealing::are_shared(const Tensor& tensor, int64_t size) const {
  const ColShards shares = graph_.shares_of(size, tensor.unit, tensor.team);
  return shares.are_even() || (tensor.matrices == 1 && tensor.team == 0 && shares.fit());
}

// Of several sizes that make the number, as in "slices*experts", the last is the one to change.
std::string Dealing::near_matrices(int64_t matrices, std::string_view extent) const {
  const size_t star = extent.rfind('*');
  const std::string_view last = star == std::string_view::npos ? "" : extent.substr(star + 1);
  const std::optional<int64_t> size = last.empty() ? std::nullopt : graph_.size(last);
  const bool are_each = size && *size > 0 && matrices % *size == 0;
  const int64_t step = are_each ? matrices / *size : 1;
  int64_t less = matrices, more = matrices;
  while (less > 0 && !each_has_one(less)) less -= step;
  while (!each_has_one(more)) more += step;
  const std::string sizes =
      fmt::format("{}{}", less > 0 ? fmt::format("{} or ", less / step) : "", more / step);
  return are_each ? fmt::format("{}={}", last, sizes) : sizes;
}

bool Dealing::each_has_one(int64_t matrices) const {
  return RowShards{matrices, graph_.ranks}.size(graph_.ranks - 1) > 0;
}

void Dealing::refuse_share(const Tensor& tensor, int64_t size, std::string_view what,
                           TextPlace place, const std::string& cause) {
  if (!not_shared_.insert(cause).second) return;
  if (tensor.team > 0) {
    const int64_t below = size / tensor.team * tensor.team;
    return refuse(place,
                  fmt::format("{} {} of {} are dealt to teams of {} ranks, which must "
                              "divide them: take {}{}",
                              size, what, tensor.name, tensor.team,
                              below > 0 ? fmt::format("{} or ", below) : "", below + tensor.team));
  }
  const std::string dealt =
      fmt::format("{} {} of {} are dealt to {} ranks", size, what, tensor.name, graph_.ranks);
  if (tensor.matrices == 1) {
    const ColShards shares = graph_.shares_of(size, tensor.unit);
    return refuse(place, fmt::format("{} {}", dealt, why_not_dealt(shares, "")));
  }
  // Rows that are gathered stay of whole 16 bytes where they are cut.
  const int64_t step = graph_.ranks * kRoutedRowBytes / num_bytes(graph_.dtype);
  const int64_t below = size / step * step, above = below + step;
  const std::string near =
      below > 0 ? fmt::format("{} or {}", below, above) : std::to_string(above);
  refuse(place, fmt::format("{}, and those of a stack must divide: take {}", dealt, near));
}

void Dealing::check_rows_divide(const Tensor& weight, TextPlace place, const Causes& causes) {
  if (are_shared(weight, weight.rows)) return;
  refuse_share(weight, weight.rows, "rows", place, causes.rows);
}

void Dealing::check_dealt_alike(const StageText& text, const std::vector<const Tensor*>& in,
                                const StageRule& rule) {
  for (size_t i = 0; i < in.size(); ++i) {
    // An all-to-all that feeds a product brings columns that are dealt as any others.
    const bool is_fed = multiplies(text.kind) && i == 0 && rule.needs[i] == Held::rows;
    if (in[i]->held != Held::cols || in[i]->team > 0) continue;
    if (rule.needs[i] != Held::cols && !is_fed) continue;
    const ColShards of_first = graph_.shares_of(in[0]->cols, in[0]->unit);
    const ColShards plain = graph_.shares_of(in[i]->cols);
    const ColShards own = graph_.shares_of(in[i]->cols, in[i]->unit);
    const ColShards& as = multiplies(text.kind) ? plain : of_first;
    if (own.block() == as.block()) continue;
    refuse(text.in_place,
           fmt::format("the columns of {} are dealt by tables, and other operands of {} are not: "
                       "take as many tables that {} ranks divide them",
                       in[i]->unit > 0 ? in[i]->name : in[0]->name, to_string(text.kind),
                       graph_.ranks));
  }
}

void Dealing::set_unit_of_ids(int ids, int64_t tables, TextPlace place) {
  Tensor& of = graph_.tensors[static_cast<size_t>(ids)];
  const int64_t unit = std::max<int64_t>(1, of.cols / tables);
  if (of.unit != 0 && of.held == Held::cols &&
      graph_.shares_of(of.cols, of.unit).block() != graph_.shares_of(of.cols, unit).block()) {
    refuse(place, fmt::format("{} is dealt to ranks for other tables already: give the ids of "
                              "each look-up as a tensor of their own",
                              of.name));
  }
  of.unit = unit;
}

}  // namespace stretto
