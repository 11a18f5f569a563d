#include "op/segments.h"

#include <fmt/format.h>

#include <algorithm>

#include "op/segment_cut.h"
#include "op/stages/stage_row.h"

namespace stretto {
namespace {

class SegmentCutter {
 public:
  explicit SegmentCutter(SegmentCut& cut) : cut_(cut), op_(cut.op), segments_(cut.segments) {}

  void cut() {
    for (size_t i = 0; i < op_.stages.size(); ++i) add_stage(static_cast<int>(i));
    require_partitions();
    put_edges(cut_);
    std::erase_if(segments_, [](const OperatorSegment& segment) {
      return segment.weights.empty() && segment.stages.empty();
    });
    std::stable_partition(segments_.begin(), segments_.end(), [&](const OperatorSegment& segment) {
      return !hands_over(op_.stage(segment.stages[0]).kind);
    });
    put_edges_of_outputs(cut_);
    part_edges(cut_);
    op_.segments = std::move(segments_);
  }

 private:
  static constexpr int kCaller = SegmentCut::kCaller;

  OperatorSegment& segment(int i) { return cut_.segment(i); }
  int& segment_of(int tensor) { return cut_.segment_of(tensor); }
  int uses(int tensor) const { return cut_.uses(tensor); }
  void refuse(const Stage& stage, const std::string& reason) { cut_.refuse(stage, reason); }

  // Whether the stage can take the tensor where its product has just left it.
  bool stays(int tensor, Held needed) {
    const int from = segment_of(tensor);
    return from != kCaller && segment(from).product && !segment(from).product->looks_up() &&
           !segment(from).product->only_moves() && segment(from).router_weights < 0 &&
           segment(from).result == tensor && op_.tensor(tensor).held == needed &&
           needed != Held::partial && uses(tensor) == 1;
  }

  void add_stage(int id) {
    const Stage& stage = op_.stage(id);
    if (multiplies(stage.kind)) return add_product(id);
    if (stage.kind == StageKind::permute) return add_permute(id);
    if (stage.kind == StageKind::weigh) return weigh(id);
    if (looks_up(stage.kind)) return add_look_ups(id);
    if (stage.kind == StageKind::gather) return hand_over(id);
    if (stage.kind == StageKind::count) return count(id);
    if (row_of(stage.kind).follows_tiles && stays(stage.in[0], stage.needs[0])) {
      const int first = segment_of(stage.in[0]);
      if (stage.kind != StageKind::swiglu) return append(first, id);
      if (joins(stage)) return join(first, segment_of(stage.in[1]), id);
    }
    refuse_order_of_experts(stage);
    // Stages over rows go on where the last ones were made, if ranks have as much of what they
    // make.
    const int from = segment_of(stage.in[0]);
    const bool goes_on = from != kCaller && !segment(from).product &&
                         from + 1 == static_cast<int>(segments_.size()) &&
                         segment(from).result_held == op_.tensor(stage.out).held &&
                         op_.tensor(segment(from).result).team == op_.tensor(stage.out).team;
    if (goes_on) return append(from, id);
    segments_.push_back({});
    append(static_cast<int>(segments_.size()) - 1, id);
  }

  // What a grouped product makes, and what follows it, lies by experts until it is weighed.
  void refuse_order_of_experts(const Stage& stage) {
    for (const int in : stage.in) {
      const int from = segment_of(in);
      if (from == kCaller && op_.tensor(in).held == Held::routed) {
        refuse(stage,
               fmt::format("{} has a row for each choice: permute or grouped can take it, and {} "
                           "cannot",
                           op_.tensor(in).name, to_string(stage.kind)));
        continue;
      }
      if (from == kCaller || !segment(from).product || !segment(from).product->is_routed())
        continue;
      if (op_.stage(op_.tensor(in).stage).kind == StageKind::weigh) continue;
      const std::string_view behind = segment(from).product->only_moves()
                                          ? ""
                                          : "swiglu, gelu, silu or bias right behind the product, ";
      refuse(stage,
             fmt::format("{} lies in the order of its experts: {}weigh, or grouped by the same ids "
                         "can take it, and {} cannot",
                         op_.tensor(in).name, behind, to_string(stage.kind)));
    }
  }

  void append(int to, int id) {
    const int out = op_.stage(id).out;
    OperatorSegment& into = segment(to);
    into.stages.push_back(id);
    into.name = op_.tensor(out).name;
    into.result = out;
    into.result_held = op_.tensor(out).held;
    segment_of(out) = to;
  }

  void add_product(int id) {
    const Stage& stage = op_.stage(id);
    if (stage.kind == StageKind::gemm) refuse_order_of_experts(stage);
    const Tensor &a = op_.tensor(stage.in[0]), &b = op_.tensor(stage.in[1]);
    OperatorSegment made;
    made.input = stage.in[0];
    made.weights = {stage.in[1]};
    const Edge edge = *edge_between(a.held, stage.needs[0]);
    made.product = Segment{{b.held, kind_of(edge).feeds ? edge : Edge::none, Edge::none},
                           a.rows,
                           b.rows,
                           a.cols,
                           op_.ranks,
                           op_.dtype};
    // Own rows are a rank's in any team: what comes column by column comes from who has it.
    const int team = kind_of(edge).exchanges && a.held == Held::cols ? a.team : stage.team;
    if (team > 0) {
      made.product->ranks = team;
      made.product->teams = op_.ranks / team;
      made.product->m /= made.product->teams;
    }
    made.product->on_every_rank = b.held == Held::whole && stage.needs[0] == Held::whole;
    if (stage.kind == StageKind::grouped) {
      const Tensor& ids = op_.tensor(stage.in[2]);
      made.product->m = ids.rows;
      made.product->experts = b.matrices;
      made.product->top_k = ids.cols;
      made.ids = stage.in[2];
    }
    segments_.push_back(std::move(made));
    append(static_cast<int>(segments_.size()) - 1, id);
  }

  // Rows go to their experts, and nobody multiplies them.
  void add_permute(int id) {
    const Stage& stage = op_.stage(id);
    const Tensor &x = op_.tensor(stage.in[0]), &ids = op_.tensor(stage.in[1]);
    if (x.held == Held::routed && x.stage >= 0) {
      refuse(stage, fmt::format("{} lies in the order of its experts already", x.name));
    }
    OperatorSegment made;
    made.input = stage.in[0];
    made.ids = stage.in[1];
    made.product = Segment{{Held::experts, *edge_between(x.held, stage.needs[0]), Edge::none},
                           ids.rows,
                           x.cols,
                           x.cols,
                           op_.ranks,
                           op_.dtype};
    made.product->weights = 0;
    made.product->experts = stage.experts;
    made.product->top_k = ids.cols;
    segments_.push_back(std::move(made));
    append(static_cast<int>(segments_.size()) - 1, id);
  }

  void add_look_ups(int id) {
    const Stage& stage = op_.stage(id);
    const Tensor &ids = op_.tensor(stage.in[0]), &tables = op_.tensor(stage.in[1]);
    OperatorSegment made;
    made.input = made.ids = stage.in[0];
    made.weights = {stage.in[1]};
    made.product = Segment{{tables.held, Edge::none, Edge::none},
                           ids.rows,
                           tables.matrices * tables.cols,
                           ids.cols / tables.matrices,
                           op_.ranks,
                           op_.dtype};
    made.product->tables = tables.matrices;
    segments_.push_back(std::move(made));
    append(static_cast<int>(segments_.size()) - 1, id);
  }

  // Rows that a product gathers, for the caller: a segment behind all others.
  void hand_over(int id) {
    const Stage& stage = op_.stage(id);
    const Tensor& made = op_.tensor(stage.out);
    if (uses(stage.out) != 1 || !op_.output_held(stage.out)) {
      refuse(stage, fmt::format(
                        "{} is handed over to the caller alone: output it as whole, and let stages "
                        "take {}",
                        made.name, op_.tensor(stage.in[0]).name));
    }
    OperatorSegment one;
    one.input = stage.in[0];
    segments_.push_back(std::move(one));
    append(static_cast<int>(segments_.size()) - 1, id);
  }

  // How many choices of each expert a partition has, for the caller: a segment behind all others.
  void count(int id) {
    const Stage& stage = op_.stage(id);
    const Tensor &made = op_.tensor(stage.out), &ids = op_.tensor(stage.in[0]);
    if (uses(stage.out) != 1 || !op_.output_held(stage.out)) {
      refuse(stage,
             fmt::format("{} is counted for the caller alone: output it as rows", made.name));
    }
    if (ids.stage >= 0) {
      refuse(stage,
             fmt::format("{} counts choices that the caller gives, and {} is made by a stage",
                         made.name, ids.name));
    }
    OperatorSegment one;
    one.input = stage.in[0];
    segments_.push_back(std::move(one));
    append(static_cast<int>(segments_.size()) - 1, id);
  }

  // What is counted is what some stage puts in the order of experts that are dealt to ranks.
  void require_partitions() {
    for (const Stage& stage : op_.stages) {
      if (stage.kind != StageKind::count) continue;
      const bool has_one =
          std::any_of(segments_.begin(), segments_.end(), [&](const OperatorSegment& segment) {
            return segment.product && segment.product->is_routed() &&
                   segment.product->kind.weight == Held::experts &&
                   segment.product->experts == stage.experts && segment.ids == stage.in[0];
          });
      if (has_one) continue;
      refuse(
          stage,
          fmt::format("{} counts what permute, or grouped of experts that are dealt to ranks, puts "
                      "in order by {} and {} experts, and nothing does",
                      op_.tensor(stage.out).name, op_.tensor(stage.in[0]).name, stage.experts));
    }
  }

  // Sums of products are made where these are.
  void weigh(int id) {
    const Stage& stage = op_.stage(id);
    const int from = segment_of(stage.in[0]);
    const bool follows = from != kCaller && segment(from).result == stage.in[0] &&
                         segment(from).ids == stage.in[1] && uses(stage.in[0]) == 1;
    if (!follows) {
      return refuse(stage,
                    fmt::format("{} is made of what a grouped product of the same ids makes, and "
                                "nothing else uses",
                                op_.tensor(stage.out).name));
    }
    segment(from).router_weights = stage.in[2];
    append(from, id);
  }

  // Two products of one input whose results nothing but this stage uses.
  bool joins(const Stage& stage) {
    if (!stays(stage.in[1], stage.needs[1]) || stage.in[0] == stage.in[1]) return false;
    const OperatorSegment &g = segment(segment_of(stage.in[0])),
                          &u = segment(segment_of(stage.in[1]));
    return g.input == u.input && g.product == u.product && g.ids == u.ids && g.stages.size() == 1 &&
           u.stages.size() == 1;
  }
  void join(int g, int u, int id) {
    OperatorSegment& left = segment(std::min(g, u));
    OperatorSegment& right = segment(std::max(g, u));
    left.stages.push_back(right.stages[0]);
    std::sort(left.stages.begin(), left.stages.end());
    // Each product by its own weight, whichever of them is the gate.
    left.weights.clear();
    for (const int product : left.stages) left.weights.push_back(op_.stage(product).in[1]);
    left.product->weights = 2;
    right = {};
    append(std::min(g, u), id);
    for (const int in : op_.stage(id).in) segment_of(in) = std::min(g, u);
  }

  SegmentCut& cut_;
  Operator& op_;
  std::vector<OperatorSegment>& segments_;
};

}  // namespace

void cut_segments(Binding& binding) {
  SegmentCut cut(binding);
  SegmentCutter(cut).cut();
}

}  // namespace stretto
