#include "measure/expert_rows.h"

#include <algorithm>

#include "op/routing_input.h"

namespace stretto::runtime {
namespace {

// The tensor of the caller's that says the choices, and in how many slices each is cut. -1: a stage
// makes them of scores.
struct Choices {
  int ids = -1;
  int64_t slices = 1, experts = 0;
};

Choices choices_of(const Operator& op, const OperatorSegment& segment) {
  const Tensor& ids = op.tensor(segment.ids);
  if (ids.stage < 0) return {segment.ids, 1, segment.product->experts};
  const Stage& made = op.stage(ids.stage);
  if (!slices_choices(made.kind) || op.tensor(made.in[0]).stage >= 0) return {};
  return {made.in[0], made.slices, made.experts};
}

bool is_routed(const OperatorSegment& segment) {
  return segment.product && segment.product->is_routed();
}

// On one rank, in microseconds.
double product_us(const Operator& op, const OperatorSegment& segment, const Machine& machine,
                  const InputData& data, int rank) {
  const Segment& product = *segment.product;
  if (product.looks_up()) return 0;
  const double size = num_bytes(op.dtype);
  double flops = 0, bytes = 0;
  if (!product.is_routed()) {
    const double weights =
        static_cast<double>(product.product_cols()) * static_cast<double>(product.local_k());
    flops = 2 * weights * static_cast<double>(product.local_m());
    bytes = weights * size;
  } else {
    const std::vector<int64_t> rows = expert_rows(op, segment, data);
    for (const int weight : segment.weights) {
      const OwnMatrices own = own_matrices(op, weight, rank);
      if (own.count == 0) continue;
      const Slice slice = slice_of(op, weight, op.tensor(weight).held, rank);
      const double matrix =
          static_cast<double>(slice.rows() / own.count) * static_cast<double>(slice.cols());
      for (int64_t i = own.first; i < own.first + own.count; ++i) {
        const int64_t of_it = rows[static_cast<size_t>(i)];
        flops += 2 * matrix * static_cast<double>(of_it);
        if (of_it > 0) bytes += matrix * size;
      }
    }
  }
  return std::max(flops / (machine.gemm_tflops * 1e6), bytes / (machine.hbm_gb_per_s * 1e3));
}

}  // namespace

std::vector<std::vector<int64_t>> tokens_sent(const Operator& op, const OperatorSegment& segment,
                                              const InputData& data) {
  const Choices choices = choices_of(op, segment);
  const auto ranks = static_cast<size_t>(op.ranks);
  std::vector<OwnMatrices> own;
  for (int rank = 0; rank < op.ranks; ++rank) {
    if (!segment.product->only_moves()) {
      own.push_back(own_matrices(op, segment.weights.front(), rank));
      continue;
    }
    const RowShards experts{segment.product->experts, op.ranks};
    own.push_back({experts.begin(rank), experts.size(rank)});
  }
  const RowShards tokens{op.tensor(choices.ids).rows, op.ranks};
  std::vector<std::vector<int64_t>> sent(ranks, std::vector<int64_t>(ranks));
  for (size_t from = 0; from < ranks; ++from) {
    const int64_t first = tokens.begin(static_cast<int>(from));
    for (int64_t row = first; row < first + tokens.size(static_cast<int>(from)); ++row) {
      const std::vector<int32_t> ids = ids_of_row(op, data, choices.ids, row);
      for (size_t to = 0; to < ranks; ++to) {
        const auto is_there = [&](int32_t id) {
          if (id < 0 || id >= choices.experts) return false;
          for (int64_t slice = 0; slice < choices.slices; ++slice) {
            const int64_t matrix = slice * choices.experts + id - own[to].first;
            if (matrix >= 0 && matrix < own[to].count) return true;
          }
          return false;
        };
        if (to != from && std::any_of(ids.begin(), ids.end(), is_there)) ++sent[from][to];
      }
    }
  }
  return sent;
}

double routed_link_bytes(const Operator& op, const InputData& data) {
  if (!takes_routing(op)) return link_bytes(op);
  double fixed = link_bytes(op);
  std::vector<double> leaves(static_cast<size_t>(op.ranks)), enters(leaves.size());
  for (const OperatorSegment& segment : op.segments) {
    if (!is_routed(segment)) continue;
    const Segment& product = *segment.product;
    const bool goes = product.kind.in == Edge::dispatch,
               returns = product.kind.out == Edge::combine;
    if (!goes && !returns) continue;
    fixed -= link_bytes(product);
    const auto sent = tokens_sent(op, segment, data);
    const double there = goes ? static_cast<double>(product.k * num_bytes(op.dtype)) : 0;
    const double back = returns ? static_cast<double>(product.n * num_bytes(op.dtype)) : 0;
    for (size_t a = 0; a < sent.size(); ++a) {
      for (size_t b = 0; b < sent.size(); ++b) {
        const auto out = static_cast<double>(sent[a][b]), in = static_cast<double>(sent[b][a]);
        leaves[a] += out * there + in * back;
        enters[a] += in * there + out * back;
      }
    }
  }
  return fixed + std::max(*std::max_element(leaves.begin(), leaves.end()),
                          *std::max_element(enters.begin(), enters.end()));
}

bool chooses(const Operator& op) {
  return std::any_of(op.segments.begin(), op.segments.end(), is_routed);
}

bool takes_routing(const Operator& op) {
  return std::any_of(op.segments.begin(), op.segments.end(), [&](const OperatorSegment& segment) {
    return is_routed(segment) && choices_of(op, segment).ids >= 0;
  });
}

std::vector<int64_t> expert_rows(const Operator& op, const OperatorSegment& segment,
                                 const InputData& data) {
  const int64_t matrices = segment.product->experts;
  std::vector<int64_t> rows(static_cast<size_t>(matrices));
  const Tensor& ids = op.tensor(segment.ids);
  const Choices choices = choices_of(op, segment);
  if (choices.ids < 0) {
    const int64_t all = ids.rows * ids.cols;
    for (int64_t i = 0; i < matrices; ++i) {
      rows[static_cast<size_t>(i)] = all * (i + 1) / matrices - all * i / matrices;
    }
    return rows;
  }
  for (int64_t row = 0; row < op.tensor(choices.ids).rows; ++row) {
    for (const int32_t id : ids_of_row(op, data, choices.ids, row)) {
      if (id < 0 || id >= choices.experts) continue;
      for (int64_t slice = 0; slice < choices.slices; ++slice) {
        ++rows[static_cast<size_t>(slice * choices.experts + id)];
      }
    }
  }
  return rows;
}

OwnMatrices own_matrices(const Operator& op, int weight, int rank) {
  const Tensor& stack = op.tensor(weight);
  if (stack.held != Held::experts) return {0, stack.matrices};
  const Slice slice = slice_of(op, weight, stack.held, rank);
  return {slice.row0 / stack.rows, slice.rows() / stack.rows};
}

double expert_floor_us(const Operator& op, const Machine& machine, const InputData& data) {
  if (!chooses(op)) return 0;
  double longest = 0;
  for (int rank = 0; rank < op.ranks; ++rank) {
    double us = 0;
    for (const OperatorSegment& segment : op.segments) {
      if (segment.product) us += product_us(op, segment, machine, data, rank);
    }
    longest = std::max(longest, us);
  }
  return longest;
}

}  // namespace stretto::runtime
