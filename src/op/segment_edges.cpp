// Edges of segments: an edge at a product belongs to it. Others have nobody to carry them yet.
#include <fmt/format.h>

#include <algorithm>

#include "op/segment_cut.h"

namespace stretto {
namespace {

bool has_edges_on_both_sides(const Segment& product) {
  return product.kind.in != Edge::none && product.kind.out != Edge::none;
}

// Of what ranks make in their columns, own rows go to each.
bool turns_result(const ProductKind& kind) {
  return kind.weight == Held::rows && kind.in == Edge::none && kind_of(kind.out).exchanges;
}

class EdgePutter {
 public:
  explicit EdgePutter(SegmentCut& cut) : cut_(cut), op_(cut.op), segments_(cut.segments) {}

  void put() {
    for (size_t i = 0; i < op_.tensors.size(); ++i) {
      const int tensor = static_cast<int>(i);
      for (const Stage& stage : op_.stages) {
        for (size_t k = 0; k < stage.in.size(); ++k) {
          if (stage.in[k] == tensor) put_edge(tensor, stage.needs[k], &stage);
        }
      }
      if (const auto held = op_.output_held(tensor)) {
        if (op_.tensor(tensor).held == Held::whole && *held != Held::whole) {
          cut_.refuse_output(
              tensor, fmt::format("output {} is made whole, on every rank: output it as whole",
                                  op_.tensor(tensor).name));
        }
        put_edge(tensor, *held, nullptr);
      }
    }
    for (const OperatorSegment& one : segments_) {
      const bool adds_choices =
          one.product && one.product->is_routed() && one.product->kind.weight == Held::cols;
      if (adds_choices && one.router_weights < 0) {
        cut_.refuse_made(
            one.result,
            fmt::format("{} has a term of a sum for each choice, which nobody adds up: weigh it",
                        one.name));
      } else if (one.product && !is_served(one)) {
        cut_.refuse_made(
            one.result,
            fmt::format("{}: no schedule serves a product{} whose weight is held as {}, fed by {} "
                        "and drained by {}",
                        one.name, one.product->is_routed() ? " of experts" : "",
                        to_string(one.product->kind.weight), to_string(one.product->kind.in),
                        to_string(one.product->kind.out)));
      }
    }
  }

 private:
  static constexpr int kCaller = SegmentCut::kCaller;

  OperatorSegment& segment(int i) { return cut_.segment(i); }
  int& segment_of(int tensor) { return cut_.segment_of(tensor); }

  bool is_gathered_for_product(int tensor) const {
    return std::any_of(segments_.begin(), segments_.end(), [&](const OperatorSegment& segment) {
      return segment.product && segment.product->is_dense() && segment.product->gathers() &&
             segment.product->teams == 1 && segment.input == tensor;
    });
  }

  static bool is_served(const OperatorSegment& one) {
    ProductKind kind = one.product->kind;
    // Another segment brings what such a product takes.
    if (one.product->is_dense() && has_edges_on_both_sides(*one.product)) kind.in = Edge::none;
    if (one.product->looks_up()) return kind.out == Edge::none || one.product->exchanges_output();
    const bool is_alone = kind.in == Edge::none && kind.out == Edge::none;
    if (one.product->is_dense() && kind.weight == Held::whole && is_alone) return true;
    if (!one.product->is_routed()) return kind.has_name() || turns_result(kind);
    switch (kind.weight) {
      case Held::rows:
        return kind.out == Edge::none && (kind.in == Edge::gather || kind.in == Edge::none);
      case Held::cols:
        return kind.in == Edge::none && kind_of(kind.out).adds && !kind_of(kind.out).goes_by_ids;
      case Held::experts:
        return true;
      case Held::whole:
      case Held::partial:
      case Held::routed:
        break;
    }
    return false;
  }

  bool is_needed_as_made(int tensor) const {
    const Held made = op_.tensor(tensor).held;
    return op_.output_held(tensor) == made ||
           std::any_of(op_.stages.begin(), op_.stages.end(), [&](const Stage& stage) {
             for (size_t k = 0; k < stage.in.size(); ++k) {
               if (stage.in[k] != tensor) continue;
               if (stage.needs[k] == made) return true;
               const auto edge = edge_between(made, stage.needs[k]);
               if (edge && is_fed(tensor, *edge, &stage)) return true;  // it moves what was made
             }
             return false;
           });
  }

  // The edge belongs to the product that takes the tensor as its first operand.
  static bool is_fed(int tensor, Edge edge, const Stage* user) {
    const bool takes_fed =
        user != nullptr && (multiplies(user->kind) || user->kind == StageKind::permute);
    return takes_fed && user->in[0] == tensor && kind_of(edge).feeds;
  }

  void put_edge(int tensor, Held needed, const Stage* user) {
    const Tensor& made = op_.tensor(tensor);
    const auto refuse = [&](const std::string& reason) {
      if (user != nullptr) return cut_.refuse(*user, reason);
      cut_.refuse_output(tensor, reason);
    };
    const auto edge = edge_between(made.held, needed);
    if (!edge || *edge == Edge::none) return;
    if (is_fed(tensor, *edge, user)) return;  // it is the product's already
    // What says how rows are routed comes with them.
    const bool is_made = made.stage >= 0 && segment(segment_of(tensor)).product;
    const bool routes = user != nullptr && *edge == Edge::gather && !is_made &&
                        (makes_choices_rows(user->kind) || user->kind == StageKind::weigh ||
                         user->kind == StageKind::count);
    if (routes) return;
    const int from = segment_of(tensor);
    const EdgeKind& kind = kind_of(*edge);
    const bool is_drained = kind.drains && from != kCaller && segment(from).product;
    if (kind.serves_callers && !is_drained && user == nullptr && waits_for_all(tensor)) {
      return;  // put_edges_of_outputs()
    }
    if (*edge == Edge::gather) {
      if (user != nullptr && user->kind == StageKind::gather) {
        if (is_gathered_for_product(tensor)) return;
        return refuse(
            fmt::format("{} hands over what a product gathers, and no gemm takes {} as its first "
                        "operand and gathers it",
                        op_.tensor(user->out).name, made.name));
      }
      if (user == nullptr) {
        return refuse(
            fmt::format("output {} is gathered before all ranks are known to have begun: "
                        "output it as rows, or make it of what is reduce-scattered",
                        made.name));
      }
      return refuse(
          fmt::format("{} is gathered for {}: only products and outputs can wait for a "
                      "gather",
                      made.name, to_string(user->kind)));
    }
    if (from == kCaller || !segment(from).product) {
      return refuse(
          fmt::format("{} needs {} {} that no product makes or takes: no schedule serves that",
                      made.name, kind.text.front() == 'a' ? "an" : "a", kind.text));
    }
    OperatorSegment& one = segment(from);
    Edge& out = one.product->kind.out;
    if (out != Edge::none && out != *edge) {
      return refuse(fmt::format("{} is needed by {} and by {}: one of them is enough", made.name,
                                to_string(out), to_string(*edge)));
    }
    if (!kind.adds && is_needed_as_made(tensor)) {
      return refuse(
          fmt::format("{} is needed as {} and as {}, and a product leaves it one way: "
                      "compute it once for each",
                      made.name, to_string(made.held), to_string(needed)));
    }
    const int team = user != nullptr ? user->team : 0;  // outputs of own rows are of all ranks
    if (needed == Held::cols && !give_to_team(tensor, team, out)) {
      return refuse(
          fmt::format("{} is needed as cols by teams of two sizes: compute it once for "
                      "each",
                      made.name));
    }
    out = *edge;
    one.result_held = needed;
  }

  // Own rows are a rank's in any team, so a product of such is of the team whose ranks have its
  // columns. False: it has an edge in another team already.
  bool give_to_team(int tensor, int team, Edge out) {
    Tensor& made = op_.tensors[static_cast<size_t>(tensor)];
    if (out != Edge::none) return made.team == team;
    Segment& product = *segment(segment_of(tensor)).product;
    made.team = team;
    made.deals_rows = team > 0;
    product.m *= product.teams;
    product.ranks = op_.team_ranks(made);
    product.teams = op_.ranks / product.ranks;
    product.m /= product.teams;
    return true;
  }

  // Whether who has a part of the tensor has waited for all ranks in the same run, not its team's
  // only. A caller may read its last output until its rank has begun the next run.
  bool waits_for_all(int tensor) {
    std::vector<bool> waits(op_.tensors.size());  // stages stand in their order
    for (const Stage& stage : op_.stages) {
      const OperatorSegment& from = segment(segment_of(stage.out));
      const bool drained =
          from.product && from.product->kind.out != Edge::none && from.product->teams == 1;
      waits[static_cast<size_t>(stage.out)] =
          drained || std::any_of(stage.in.begin(), stage.in.end(),
                                 [&](int in) { return waits[static_cast<size_t>(in)]; });
      if (stage.out == tensor) break;
    }
    return waits[static_cast<size_t>(tensor)];
  }

  SegmentCut& cut_;
  Operator& op_;
  std::vector<OperatorSegment>& segments_;
};

// What is moved is A alone, so it has as many columns as K.
OperatorSegment in_front_of(const Operator& op, const OperatorSegment& one) {
  const Segment& product = *one.product;
  const Stage& stage = op.stage(one.stages[0]);
  const Tensor& a = op.tensor(one.input);
  OperatorSegment feeds;
  feeds.name = one.name + ".in";
  feeds.input = feeds.result = one.input;
  feeds.result_held = stage.needs[0];
  // Who has columns before, or has them behind, says of which ranks the edge is.
  const int team = kind_of(product.kind.in).exchanges && a.held == Held::cols ? a.team : stage.team;
  Segment moves;
  moves.kind = {stage.needs[0] == Held::rows ? Held::whole : Held::rows, product.kind.in,
                Edge::none};
  moves.ranks = team > 0 ? team : op.ranks;
  moves.teams = op.ranks / moves.ranks;
  moves.m = a.rows / moves.teams;
  moves.n = moves.k = a.cols;
  moves.dtype = op.dtype;
  moves.weights = 0;
  feeds.product = moves;
  return feeds;
}

}  // namespace

void put_edges(SegmentCut& cut) { EdgePutter(cut).put(); }

void part_edges(SegmentCut& cut) {
  std::vector<OperatorSegment> parted;
  for (OperatorSegment& one : cut.segments) {
    if (one.product && one.product->is_dense() && has_edges_on_both_sides(*one.product)) {
      parted.push_back(in_front_of(cut.op, one));
      one.product->kind.in = Edge::none;
      one.is_fed = true;
    }
    parted.push_back(std::move(one));
  }
  cut.segments = std::move(parted);
}

void put_edges_of_outputs(SegmentCut& cut) {
  for (const OperatorOutput& output : cut.op.outputs) {
    const Tensor& made = cut.op.tensor(output.tensor);
    const Edge edge = edge_between(made.held, output.held).value_or(Edge::none);
    const auto leaves_it = [&](const OperatorSegment& one) {
      return one.product && one.result == output.tensor && one.result_held == output.held;
    };
    if (!kind_of(edge).serves_callers || std::ranges::any_of(cut.segments, leaves_it)) continue;
    OperatorSegment behind;
    behind.name = made.name;
    behind.input = behind.result = output.tensor;
    behind.result_held = output.held;
    behind.edge = edge;
    cut.segments.push_back(std::move(behind));
  }
}

}  // namespace stretto
