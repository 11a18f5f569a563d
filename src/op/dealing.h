// Who has how much of a graph's tensors: what is dealt to ranks and to teams of them must be so
// that each has its part.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "op/binding.h"
#include "op/stage_rules.h"

namespace stretto {

class Dealing {
 public:
  explicit Dealing(Binding& binding) : binding_(binding), graph_(binding.graph) {}

  void add_team(const TeamText& text);
  // Ranks of each of the teams; 0: all ranks are one.
  int team_named(const std::string& name) const { return name.empty() ? 0 : teams_.at(name); }
  bool knows_team(const std::string& name) const { return name.empty() || teams_.count(name) > 0; }
  static std::string teams_of(int team);
  // Rows that each team has a block of are as many on every rank: so a rank's own among its team's
  // are its own among all.
  void check_team_rows(int64_t rows, TextPlace place, const std::string& cause);
  // What a team has of an input: of weights all, of others a block of the rows.
  void give_to_teams(Tensor& tensor, const InputText& input, const Causes& causes);
  // Of all ranks: whether what is dealt as columns, and as rows, is dealt alike.
  void check_has_one_use(const Tensor& tensor, const InputText& input);
  // Whether the team's ranks have the operand of its stage among them. Own rows are a rank's in
  // whatever team.
  static bool is_of_team(const Tensor& tensor, int team, bool is_weight, Held needed);

  void check_divides(const Tensor& tensor, Held held, TextPlace place, const Causes& causes);
  // Rows of a weight are dealt as columns of the product.
  void check_rows_divide(const Tensor& weight, TextPlace place, const Causes& causes);
  // Where ranks do not divide tables, their columns are dealt otherwise than others of as many.
  void check_dealt_alike(const StageText& text, const std::vector<const Tensor*>& in,
                         const StageRule& rule);
  // Indices are dealt as the tables are that they look up in.
  void set_unit_of_ids(int ids, int64_t tables, TextPlace place);

 private:
  bool is_parameter_of_any(const std::string& tensor, bool is) const;
  // Columns, or rows of a weight. Those of a stack must divide.
  bool are_shared(const Tensor& tensor, int64_t size) const;
  bool each_has_one(int64_t matrices) const;
  std::string near_matrices(int64_t matrices, std::string_view extent) const;
  // Once for each cause, however many tensors have it.
  void refuse_share(const Tensor& tensor, int64_t size, std::string_view what, TextPlace place,
                    const std::string& cause);
  void refuse(TextPlace place, const std::string& reason) { binding_.refuse(place, reason); }

  Binding& binding_;
  Operator& graph_;
  std::map<std::string, int> teams_;  // by name: ranks of each; 0: all
  std::set<std::string> not_dealt_;   // causes of rows that ranks do not divide
  std::set<std::string> not_shared_;  // causes of what does not divide
};

}  // namespace stretto
