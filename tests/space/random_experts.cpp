#include "space/random_experts.h"

#include <fmt/format.h>

#include <iterator>
#include <set>
#include <string_view>
#include <type_traits>
#include <vector>

namespace stretto {
namespace {

class Author {
 public:
  explicit Author(std::mt19937_64& random) : random_(random) {}

  std::string text() {
    constexpr std::string_view kHeld[] = {"rows", "rows", "whole"};
    const std::string held(any(kHeld));
    tensors_.push_back({input("m, h", held), "m", "h", held});
    if (one_in(4)) add_other_rows();
    for (int stages = below(4) + 1; stages > 0; --stages) add_stage();
    return "graph own m h f e k tables pool s d q\n" + inputs_ + stages_ + outputs();
  }

 private:
  struct Tensor {
    std::string name, rows, cols, held;
    bool is_output = false;  // of the caller alone
  };
  struct Choices {
    std::string ids, weights;
  };

  int below(int bound) { return std::uniform_int_distribution<int>(0, bound - 1)(random_); }
  bool one_in(int count) { return below(count) == 0; }
  template <typename Container>
  auto any(const Container& of) -> std::remove_cvref_t<decltype(of[0])> {
    return of[static_cast<size_t>(below(static_cast<int>(std::size(of))))];
  }

  std::string input(std::string_view shape, std::string_view held, std::string_view type = "") {
    std::string name = fmt::format("i{}", num_inputs_++);
    inputs_ += fmt::format("input {} [{}] {} {}\n", name, shape, held, type);
    return name;
  }
  // A stage's words, of which `used` are tensors.
  std::string make(const std::string& words, const std::vector<std::string>& used) {
    std::string name = fmt::format("t{}", num_stages_++);
    stages_ += fmt::format("{} = {}\n", name, words);
    used_.insert(used.begin(), used.end());
    return name;
  }
  void put(std::string name, const Tensor& like, std::string cols, std::string held) {
    tensors_.push_back({std::move(name), like.rows, std::move(cols), std::move(held)});
  }

  // As many as there are of something else.
  void add_other_rows() {
    const Tensor other{input("q, h", "rows"), "q", "h", "rows"};
    put(make("gelu " + other.name, {other.name}), other, "h", "rows");
  }

  void add_stage() {
    const Tensor of = one_in(3) ? any(tensors_) : tensors_.back();
    const bool takes_experts = !of.is_output && of.rows == "m" && of.held != "cols";
    switch (below(6)) {
      case 0:
      case 1:
      case 2:
        return add_experts(takes_experts ? of : tensors_.front());
      case 3:
        return add_product(of.is_output ? tensors_.front() : of);
      case 4:
        return one_in(2) ? add_look_ups() : add_gate();
      default:
        return add_by_rows(of.is_output ? tensors_.front() : of);
    }
  }

  static std::string summed(const Tensor& of) {
    return of.held == "partial" || of.held == "routed" ? "rows" : of.held;
  }

  void add_by_rows(const Tensor& of) {
    const std::string held = summed(of);
    if (one_in(3)) {
      const std::string other = input(of.rows + ", " + of.cols, held);
      return put(make("add " + of.name + " " + other, {of.name, other}), of, of.cols, held);
    }
    if (one_in(2)) return put(make("silu " + of.name, {of.name}), of, of.cols, held);
    const std::string row = input("1, " + of.cols, "whole");
    put(make("norm " + of.name + " " + row, {of.name, row}), of, of.cols,
        held == "whole" ? "whole" : "rows");
  }

  void add_product(const Tensor& of) {
    constexpr std::string_view kAny[] = {"rows", "whole", "cols"};
    const std::string held = of.held == "cols" ? "cols" : std::string(any(kAny));
    const std::string cols = one_in(2) ? "h" : "f", weight = input(cols + ", " + of.cols, held);
    put(make("gemm " + of.name + " " + weight, {of.name, weight}), of, cols,
        held == "rows"       ? "cols"
        : held == "cols"     ? "partial"
        : of.held == "whole" ? "whole"
                             : "rows");
  }

  void add_look_ups() {
    const std::string ids = input("m, tables*pool", "cols", one_in(3) ? "i64" : "i32");
    const std::string tables = input("tables, s, d", "experts");
    put(make("embed " + ids + " " + tables, {ids, tables}), tensors_.front(), "tables*d", "cols");
  }

  std::string add_scores(const Tensor& of) {
    const std::string router = input("e, " + of.cols, "whole");
    return make("gemm " + of.name + " " + router, {of.name, router});
  }

  // Weights of what the caller chose.
  void add_gate() {
    const std::string scores = add_scores(tensors_.front()), ids = input("m, k", "rows", "i32");
    const std::string gate = one_in(2) ? "softmax_gate " : "sigmoid_gate ";
    put(make(gate + scores + " " + ids, {scores, ids}), tensors_.front(), "k", "rows");
    tensors_.back().is_output = true;
  }

  Choices choose(const Tensor& of) {
    if (!choices_.empty() && one_in(2)) return any(choices_);
    Choices made;
    if (one_in(2)) {
      const std::string held = one_in(3) ? "whole" : "rows";
      made.ids = input("m, k", held, one_in(3) ? "i64" : "i32");
      made.weights = input("m, k", one_in(4) ? "whole" : held, one_in(3) ? "" : "fp32");
    } else {
      const std::string scores = add_scores(of);
      made.ids = make("top_k " + scores + " k=k", {scores});
      made.weights = make("softmax_gate " + scores + " " + made.ids, {scores, made.ids});
    }
    choices_.push_back(made);
    return made;
  }

  // Some take rows by choice, and some leave them for the caller.
  void add_experts(const Tensor& of) {
    const Choices chosen = choose(of);
    const int way = below(3);  // dealt, cut, or nothing is multiplied
    if (way != 2 && one_in(5)) return add_down(of, chosen, way == 0);
    if (way == 2) {
      const std::string moved =
          make("permute " + of.name + " " + chosen.ids + " experts=e", {of.name, chosen.ids});
      return weigh(moved, chosen, of, of.cols, "routed");
    }
    std::string last = of.name, cols = of.cols, held = "routed";
    const int products = one_in(3) ? 1 : 2;
    const bool leaves = one_in(6);
    for (int i = 0; i < products; ++i) {
      const bool is_sum = i + 1 == products && products > 1;
      const std::string out = is_sum ? "h" : "f";
      const std::string of_stack = way == 0 ? "experts" : is_sum ? "cols" : "rows";
      last = add_grouped(last, out, cols, of_stack, chosen.ids, !is_sum);
      cols = out;
      if (way == 1) held = is_sum ? "partial" : "cols";
    }
    if (leaves && held != "partial") tensors_.push_back({last, "m*k", cols, held, true});
    if (!leaves || held == "partial" || one_in(2)) weigh(last, chosen, of, cols, held);
  }

  void add_down(const Tensor& of, const Choices& chosen, bool is_dealt) {
    const std::string rows = input("m*k, f", is_dealt ? "routed" : "cols");
    const std::string last =
        add_grouped(rows, "h", "f", is_dealt ? "experts" : "cols", chosen.ids, false);
    weigh(last, chosen, of, "h", is_dealt ? "routed" : "partial");
  }

  std::string add_grouped(const std::string& of, const std::string& out, const std::string& cols,
                          const std::string& held, const std::string& ids, bool is_followed) {
    const auto product = [&] {
      const std::string stack = input("e, " + out + ", " + cols, held);
      return make("grouped " + of + " " + stack + " " + ids, {of, stack, ids});
    };
    const std::string made = product();
    if (!is_followed || one_in(3)) return made;
    if (one_in(2)) return make("gelu " + made, {made});
    const std::string other = product();
    return make("swiglu " + made + " " + other, {made, other});
  }

  void weigh(const std::string& products, const Choices& chosen, const Tensor& of,
             const std::string& cols, const std::string& held) {
    put(make("weigh " + products + " " + chosen.ids + " " + chosen.weights,
             {products, chosen.ids, chosen.weights}),
        of, cols, held);
  }

  // What no stage takes, and some of the rest.
  std::string outputs() {
    std::string text;
    for (const Tensor& one : tensors_) {
      const bool is_left = one.rows == "m*k";
      const bool is_used = used_.count(one.name) > 0 && !is_left;
      if (one.name.front() == 'i' || (is_used && !one_in(6))) continue;
      const bool is_whole = one.held == "partial" && one_in(2);
      text += fmt::format("output {} {}\n", one.name,
                          is_whole  ? "whole"
                          : is_left ? one.held
                                    : summed(one));
    }
    return text;
  }

  std::mt19937_64& random_;
  std::vector<Tensor> tensors_;
  std::vector<Choices> choices_;
  std::set<std::string> used_;
  std::string inputs_, stages_;
  int num_inputs_ = 0, num_stages_ = 0;
};

}  // namespace

std::string random_experts_text(std::mt19937_64& random) { return Author(random).text(); }

}  // namespace stretto
