// emit_tasks: every task, in an order in which one thread could execute them all.
#include <algorithm>
#include <optional>

#include "lower/emit_patterns.h"
#include "lower/emit_rows.h"
#include "lower/free_lanes.h"
#include "lower/residual_sums.h"
#include "lower/say_libraries.h"
#include "lower/sent_rows.h"
#include "lower/stripes.h"
#include "schedule/rows_with_tiles.h"
#include "stretto/error.h"

namespace stretto {

namespace {

// Segment after segment, each in kernels of its own; of each, part after part.
//
// While compute lanes have the next part's tiles, a part is on its way: what its compute lanes do
// when others' data has come stands behind those tiles. Where movers are blocks, and the sums of a
// product are made with its tiles, the movers go on with the part by themselves, if they are
// enough: they take its rows through the stages that follow, and send them to where the next
// product needs them.
class SegmentsInTurn {
 public:
  explicit SegmentsInTurn(Lowering& state)
      : state_(state),
        parts_(state.parts.size()),
        after_(parts_),
        emitters_(state.products.size()) {}

  void emit() {
    const std::vector<OperatorSegment>& segments = state_.op.segments;
    for (size_t i = 0; i < segments.size(); ++i) {
      for (size_t p = 0; p < parts_; ++p) emit_segment(i, p);
      const bool is_dense = segments[i].product && segments[i].product->is_dense();
      const bool is_product = is_dense && !segments[i].feeds();
      if (is_dense) next_product_ += parts_;
      if (is_product && movers_go_on(i)) i = last_of_leg(i);
      // Its collective has made the stages that follow, or its sums have.
      if (is_product && state_.products[next_product_ - parts_].normed) ++i;
      if (i + 1 < segments.size() && is_made_by_sums(state_, state_.parts[0], segments[i + 1])) ++i;
    }
    for (size_t p = 0; p < parts_; ++p) {
      finish(p);
      deliver(p);
    }
  }

 private:
  const OperatorSegment& segment(size_t i, size_t p) const {
    return state_.parts[p].rows.op.segments[i];
  }

  void emit_segment(size_t i, size_t p) {
    if (counts_choices(state_.op, segment(i, p))) {
      finish(p);
      emit_counts(state_, state_.parts[p], segment(i, p));
      return keep(p, {});
    }
    const SegmentLowering* const gathers = gathers_for(state_, state_.parts[p], segment(i, p));
    if (i + p > 0) {
      finish(p);
      const bool goes_on = gathers ? movers_hand_over(*gathers)
                                   : is_sent_by_stage(state_, state_.parts[p], segment(i, p)) ||
                                         takes_rows_with_tiles(state_.schedule, segment(i, p)) ||
                                         (segment(i, p).is_fed && tiles_await_input());
      if (!goes_on) {
        Emitter emit(state_, state_.lanes, state_.parts[p]);
        end_kernels(state_, emit);
      }
    }
    if (gathers) {
      hand_over_rows(state_, state_.parts[p], *gathers, segment(i, p));
      return keep(p, {});
    }
    if (!segment(i, p).product) return emit_stages(i, p, false);
    if (segment(i, p).product->is_routed()) return emit_routed_product(p);
    if (segment(i, p).product->looks_up()) return emit_pooled(p);
    SegmentLowering& product = state_.products[next_product_ + p];
    schedule_ = state_.schedule_of[next_product_ / parts_];
    if (segment(i, p).feeds()) return bring_input(p);
    product_ = next_product_;
    send_input(next_product_ + p);
    const bool rows_sum = i + 1 < state_.op.segments.size() && sums_with_rows(product) &&
                          takes_rows_with_tiles(state_.schedule, segment(i + 1, p));
    Emitter& emit = *emitters_[next_product_ + p];
    take_from_stripes(product, emit);
    AfterTiles after = product.pattern.emit_tiles(product, emit, rows_sum);
    if (product.buffers.striped_out) {
      after.reduce = [&product, &emit] { put_in_stripes(product, emit); };
    }
    keep(p, std::move(after));
    if (!state_.is_split()) finish(p);
    if (movers_go_on(i)) go_on(i, p);
  }

  // What is moved to where the next segment's product takes it.
  void bring_input(size_t p) {
    SegmentLowering& moved = state_.products[next_product_ + p];
    send_input(next_product_ + p);
    if (moved.pattern.settle_input != nullptr) {
      moved.pattern.settle_input(moved, *emitters_[next_product_ + p]);
    }
    keep(p, {});
  }

  // Whether they do so tile by tile, in the kernel that is there already.
  bool tiles_await_input() const {
    return state_.products[next_product_ - parts_].schedule.sync != Sync::event;
  }

  void emit_routed_product(size_t p) {
    RoutedLowering& product = state_.routed[next_routed_++];
    schedule_ = static_cast<uint32_t>(product.number);
    keep(p, emit_routed(state_, product));
    if (!state_.is_split()) finish(p);
  }

  void emit_pooled(size_t p) {
    LookUpLowering& one = state_.look_ups[next_look_ups_++];
    schedule_ = static_cast<uint32_t>(one.number);
    keep(p, emit_look_ups(state_, one));
    if (!state_.is_split()) finish(p);
  }

  // The movers' part of what follows a product.
  void go_on(size_t i, size_t p) {
    finish(p);
    const size_t last = last_of_leg(i);
    const bool is_end = last + 1 == state_.op.segments.size() && p + 1 == parts_;
    for (size_t k = i + 1; k <= last; ++k) {
      if (is_end) {  // beside nothing: all lanes take the rows
        Emitter emit(state_, state_.lanes, state_.parts[p]);
        end_kernels(state_, emit);
      }
      emit_stages(k, p, !is_end);
    }
    if (feeds_dense_product(last)) send_input(next_product_ + parts_ + p);
  }

  // Whether the segment that follows this one is a product whose input is ready then.
  bool feeds_dense_product(size_t last) const {
    const std::vector<OperatorSegment>& segments = state_.op.segments;
    return last + 1 < segments.size() && segments[last + 1].product->is_dense();
  }

  // Stages over rows up to the next product.
  size_t last_of_leg(size_t i) const {
    while (i + 1 < state_.op.segments.size() && !state_.op.segments[i + 1].product) ++i;
    return i;
  }

  // Behind the product that is segment i, whose parts are emitted, or were last.
  bool movers_go_on(size_t i) const {
    if (!state_.is_split() || state_.lanes.comm == 0) return false;
    const SegmentLowering& product = state_.products[product_];
    const bool sums_stay = !product.pattern.adds_slots || product.reduces_with_tiles();
    if (product.by_nccl() || product.op.exchanges_output() || !sums_stay) return false;
    // The rows take them no longer than a part's tiles take, beside which memory is a third as
    // fast.
    const Pace pace(product.op, product.schedule, state_.machine);
    const int64_t waves = (product.num_tasks() + product.lanes.compute - 1) / product.lanes.compute;
    int64_t elements = 0;
    for (size_t k = i + 1; k <= last_of_leg(i); ++k) elements += elements_of_rows(segment(k, 0));
    return 3 * pace.move_ns(elements * num_bytes(state_.op.dtype)) <=
           waves * pace.task_ns * state_.lanes.comm;
  }

  // That the stages of a rank read and write.
  int64_t elements_of_rows(const OperatorSegment& rows) const {
    const Operator& op = state_.parts[0].rows.op;
    if (rows.is_edge()) return 0;  // a link's time, whoever sends
    int64_t elements = 0;
    for (const int id : rows.stages) {
      const Tensor& out = op.tensor(op.stage(id).out);
      const auto operands = static_cast<int64_t>(op.stage(id).in.size()) + 1;
      elements += operands * out.rows * out.cols / (out.held == Held::whole ? 1 : op.ranks);
    }
    return elements;
  }

  void emit_stages(size_t i, size_t p, bool by_movers) {
    keep(p, emit_rows(state_, state_.parts[p], segment(i, p), by_movers));
  }

  void send_input(size_t product) {
    std::optional<Emitter>& emitter = emitters_[product];
    if (emitter) return;
    emitter.emplace(state_, state_.products[product]);
    SegmentLowering& one = state_.products[product];
    if (one.pattern.emit_input != nullptr) one.pattern.emit_input(one, *emitter);
    end_stretch(state_.schedule_of[product / parts_]);
  }

  // Keeps what a part has after its tiles until its next segment.
  void keep(size_t p, AfterTiles after) {
    end_stretch(schedule_);
    after_[p].reduce = std::move(after.reduce);
    after_[p].schedule = schedule_;
    if (!after.deliver) return;
    after_[p].deliver.push_back(std::move(after.deliver));
    if (!state_.is_split()) {
      finish(p);
      deliver(p);
    }
  }

  void finish(size_t p) {
    if (after_[p].reduce) after_[p].reduce();
    after_[p].reduce = {};
    end_stretch(after_[p].schedule);
  }

  // When nothing else is left of the run, for the lanes wait.
  void deliver(size_t p) {
    for (const auto& one : after_[p].deliver) one();
    after_[p].deliver.clear();
    end_stretch(after_[p].schedule);
  }

  void end_stretch(uint32_t product) {
    state_.stretches.push_back({static_cast<uint32_t>(state_.program.size()), product});
  }

  struct OfPart {
    std::function<void()> reduce;
    std::vector<std::function<void()>> deliver;
    uint32_t schedule = 0;  // whose they have
  };

  Lowering& state_;
  const size_t parts_;
  std::vector<OfPart> after_;
  std::vector<std::optional<Emitter>> emitters_;  // by product
  size_t next_product_ = 0, next_routed_ = 0, next_look_ups_ = 0;
  size_t product_ = 0;     // of those that are dense: the first part of the last one
  uint32_t schedule_ = 0;  // stages over rows go by the product before them
};

}  // namespace

void end_kernels(Lowering& state, Emitter& emit) {
  const std::vector<Schedule>& schedules = state.schedule.products;
  const bool by_events = std::any_of(schedules.begin(), schedules.end(),
                                     [](const Schedule& one) { return one.sync == Sync::event; });
  for (int rank = 0; rank < state.op.ranks; ++rank) {
    emit.boundary(rank);
    if (by_events) emit.boundary(rank);
  }
  if (!says_kernels(state.schedule)) return;
  // Ranks of few rows have had fewer kernels.
  const int32_t most = *std::max_element(state.boundaries.begin(), state.boundaries.end());
  for (int rank = 0; rank < state.op.ranks; ++rank) {
    while (state.boundaries[static_cast<size_t>(rank)] < most) emit.boundary(rank);
  }
}

void emit_tasks(Draft& draft) { SegmentsInTurn(lowering(draft)).emit(); }

}  // namespace stretto
