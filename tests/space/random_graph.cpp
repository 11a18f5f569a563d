#include "space/random_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <type_traits>
#include <vector>

#include "stretto/held.h"

namespace stretto {
namespace {

class Author {
 public:
  Author(std::mt19937_64& random, int team) : random_(random), team_(team) {}

  std::string text() {
    constexpr Held kHeld[] = {Held::rows, Held::rows, Held::whole, Held::cols};
    const Held held = any(kHeld);
    tensors_.push_back({input("m", "h", held), "h", held});
    for (int stages = below(7) + 1; stages > 0; --stages) {
      // A copy: what is added may move what is there.
      const Tensor of = one_in(4) ? any(tensors_) : tensors_.back();
      add_stage(of);
    }
    const std::string team = team_ > 0 ? fmt::format("team tp {}\n", team_) : "";
    return "graph own m h f\n" + team + inputs_ + stages_ + outputs();
  }

 private:
  struct Tensor {
    std::string name, cols;
    Held held;
  };

  int below(int bound) { return std::uniform_int_distribution<int>(0, bound - 1)(random_); }
  bool one_in(int count) { return below(count) == 0; }
  template <typename Container>
  auto any(const Container& of) -> std::remove_cvref_t<decltype(of[0])> {
    return of[static_cast<size_t>(below(static_cast<int>(std::size(of))))];
  }

  std::string_view of_team() const { return team_ > 0 ? " of tp" : ""; }

  std::string input(std::string_view rows, std::string_view cols, Held held) {
    std::string name = fmt::format("i{}", num_inputs_++);
    inputs_ +=
        fmt::format("input {} [{}, {}] {}{}\n", name, rows, cols, to_string(held), of_team());
    return name;
  }

  void make(const Tensor& of, std::string_view kind, const std::string& other, std::string cols,
            Held held) {
    std::string name = fmt::format("t{}", num_stages_++);
    stages_ +=
        fmt::format("{} = {} {}{}{}\n", name, kind, of.name, other.empty() ? "" : " ", other);
    used_.insert({of.name, other});
    tensors_.push_back({std::move(name), std::move(cols), held});
  }

  void add_stage(const Tensor& of) {
    // Terms are summed before anything else takes them.
    const Held held = of.held == Held::partial ? Held::rows : of.held;
    switch (below(9)) {
      case 0:
      case 1:
      case 2:
        return add_product(of);
      case 3:
        return make(of, "silu", "", of.cols, held);
      case 4:
        return make(of, "gelu", "", of.cols, held);
      case 5:
        return make(of, "bias", input("1", of.cols, held == Held::cols ? Held::cols : Held::whole),
                    of.cols, held);
      case 6:
        return make(of, "norm", input("1", of.cols, Held::whole), of.cols,
                    of.held == Held::whole ? Held::whole : Held::rows);
      case 7:
        return join(of, held, "add");
      default:
        return join(of, held, "swiglu");
    }
  }

  void add_product(const Tensor& of) {
    constexpr Held kAny[] = {Held::rows, Held::rows, Held::whole, Held::cols};
    const Held weight = of.held == Held::cols && !one_in(5) ? Held::cols : any(kAny);
    const std::string cols = one_in(2) ? "h" : "f";
    const Held whole = of.held == Held::whole ? Held::whole : Held::rows;
    make(of, "gemm", input(cols, of.cols, weight), cols,
         weight == Held::rows   ? Held::cols
         : weight == Held::cols ? Held::partial
                                : whole);
  }

  void join(const Tensor& of, Held held, std::string_view kind) {
    std::vector<Tensor> others;
    for (const Tensor& one : tensors_) {
      if (one.cols == of.cols && one.name != of.name) others.push_back(one);
    }
    if (others.empty() || one_in(3))
      return make(of, kind, input("m", of.cols, held), of.cols, held);
    const Tensor other = any(others);
    const Held second = other.held == Held::partial ? Held::rows : other.held;
    const bool any_rows = held == Held::rows || second == Held::rows;
    make(of, kind, other.name, of.cols,
         held == second ? held
         : any_rows     ? Held::rows
                        : (second == Held::whole ? held : second));
  }

  // What no stage takes, and some of the rest.
  std::string outputs() {
    constexpr Held kOfTerms[] = {Held::rows, Held::whole};
    constexpr Held kAny[] = {Held::rows, Held::whole, Held::cols};
    std::string text;
    for (const Tensor& one : tensors_) {
      const bool is_used = used_.count(one.name) > 0;
      if (one.name.front() == 'i' || (is_used && !one_in(6))) continue;
      const Held usual = one.held == Held::partial ? any(kOfTerms) : one.held;
      text += fmt::format("output {} {}{}\n", one.name, to_string(one_in(5) ? any(kAny) : usual),
                          of_team());
    }
    return text;
  }

  std::mt19937_64& random_;
  const int team_;
  std::vector<Tensor> tensors_;
  std::set<std::string> used_;
  std::string inputs_, stages_;
  int num_inputs_ = 0, num_stages_ = 0;
};

}  // namespace

std::string random_graph_text(std::mt19937_64& random, int team) {
  return Author(random, team).text();
}

}  // namespace stretto
