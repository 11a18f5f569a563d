// Rows that collectives move by ids: to the ranks of the experts that they choose, and back as
// weighted sums.
#include <algorithm>
#include <optional>

#include "lower/emit_patterns.h"
#include "lower/emit_rows.h"
#include "lower/routed_emission.h"

namespace stretto {
namespace {

// Where the caller wants to know how many choices each expert of a rank has.
std::optional<uint16_t> buffer_of_counts(const RoutedEmission& of) {
  const PartLowering& part = of.state.parts[of.product.of_part];
  for (const OperatorSegment& segment : part.rows.op.segments) {
    if (!counts_choices(part.rows.op, segment)) continue;
    const Stage& stage = part.rows.op.stage(segment.stages[0]);
    if (stage.in[0] != of.product.part.ids || stage.experts != of.product.op.experts) continue;
    return part.results[static_cast<size_t>(segment.result)];
  }
  return std::nullopt;
}

// Of a part of the rows what is the part's.
Region all_of(const RoutedEmission& of, uint16_t buffer, int rank) {
  const Buffer& whole = of.state.plan.buffers[buffer];
  if (of.state.is_split() && of.state.rows_of_all_parts(buffer) > 0) {
    const RowShards tokens{of.blocks.tokens, of.ranks};
    return region_of({0, static_cast<int32_t>(tokens.size(rank)), 0, whole.cols}, buffer, rank);
  }
  return region_of({0, whole.rows_on(rank), 0, whole.cols}, buffer, rank);
}

void emit_dispatch(RoutedEmission& of, int rank) {
  const CollectiveKind kind =
      of.product.has_shares_of_experts() ? CollectiveKind::dispatch : CollectiveKind::dispatch_all;
  of.emit.collective(rank, kind, of.collectives, 0, of.blocks.all_experts);
}

void dispatch_by_choice(RoutedEmission& of) {
  const RoutedLowering& product = of.product;
  const std::optional<uint16_t> counts = buffer_of_counts(of);
  for (int rank = 0; rank < of.ranks; ++rank) {
    of.emit.read(of.own_rows(product.x, rank));
    of.emit.read(all_of(of, product.ids.own, rank));  // who has all ids knows what comes
    of.emit.write(all_of(of, product.out, rank));
    if (counts) of.emit.write(all_of(of, *counts, rank));
    emit_dispatch(of, rank);
  }
  ++of.collectives;
}

// `weights`: null where nobody adds up what experts make; then IDS stand ahead of rows. `counts`:
// where no partition counts choices.
void dispatch_by_token(RoutedEmission& of, const GatheredRows* weights,
                       std::optional<uint16_t> counts) {
  const RoutedLowering& product = of.product;
  for (int rank = 0; rank < of.ranks; ++rank) {
    of.emit.read(of.own_rows(product.x, rank));
    of.emit.read(of.own_rows(product.ids, rank));
    if (weights) of.emit.read(of.own_rows(*weights, rank));
    if (!weights) of.emit.write(all_of(of, product.ids.all, rank));
    of.emit.write(all_of(of, product.x.all, rank));
    if (weights) {
      of.emit.write(all_of(of, product.ids.all, rank));
      of.emit.write(all_of(of, weights->all, rank));
    }
    if (counts) of.emit.write(all_of(of, *counts, rank));
    emit_dispatch(of, rank);
  }
  ++of.collectives;
}

// `ids`: of all tokens. With `row_of_choice` rows lie in a partition.
void emit_combine(RoutedEmission& of, uint16_t ids, uint16_t rows,
                  std::optional<uint16_t> row_of_choice) {
  const RoutedLowering& product = of.product;
  const CollectiveKind kind =
      product.has_shares_of_experts() ? CollectiveKind::combine : CollectiveKind::combine_all;
  for (int rank = 0; rank < of.ranks; ++rank) {
    of.emit.read(all_of(of, product.weights.all, rank));
    of.emit.read(all_of(of, ids, rank));
    of.emit.read(all_of(of, rows, rank));
    if (row_of_choice) of.emit.read(all_of(of, *row_of_choice, rank));
    of.emit.write(all_of(of, product.out, rank));
    of.emit.collective(rank, kind, of.collectives, 0, of.blocks.all_experts);
  }
  ++of.collectives;
}

// The products whose rows are those of one partition, the first ahead.
std::vector<RoutedLowering*> of_same_blocks(RoutedEmission& of) {
  std::vector<RoutedLowering*> found;
  for (RoutedLowering& one : of.state.routed) {
    if (one.blocks == of.product.blocks) found.push_back(&one);
  }
  return found;
}

}  // namespace

void emit_by_ids(Lowering& state, RoutedLowering& product) {
  RoutedEmission of(state, product);
  if (!product.has_sums()) return dispatch_by_choice(of);
  if (product.x.is_gathered) dispatch_by_token(of, &product.weights, buffer_of_counts(of));
  emit_combine(of, product.ids.all, product.x.all, std::nullopt);
}

void dispatch_by_ids(RoutedEmission& of) {
  const std::vector<RoutedLowering*> products = of_same_blocks(of);
  // Sums that go back in another way bring their weights themselves.
  const auto sums = std::find_if(products.begin(), products.end(), [](const RoutedLowering* one) {
    return one->has_sums() && one->goes_by_ids();
  });
  dispatch_by_token(of, sums == products.end() ? nullptr : &(*sums)->weights, std::nullopt);
}

void combine_by_ids(RoutedEmission& of) {
  const std::vector<uint16_t>& kept = of.product.kept;
  const uint16_t ids = of_same_blocks(of).front()->ids.all;
  emit_combine(of, ids, kept[of.product.part.stages.size() - 2], of.blocks.rows);
}

}  // namespace stretto
