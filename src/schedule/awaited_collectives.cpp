#include "schedule/awaited_collectives.h"

#include <algorithm>

namespace stretto {
namespace {

bool is_by_collectives(const Operator& op, const Schedule& one) {
  return op.ranks > 1 && one.mover == Mover::nccl && one.sync == Sync::event;
}

// Blocks of the product's kernels wait for what those of other ranks make.
bool waits_for_peers(const Segment& product, const Schedule& one) {
  return product.ranks > 1 && one.sync != Sync::event &&
         (product.communicates() || !product.is_dense());
}

// Tensors that collectives bring and no kernel has followed yet, while segments go on in their
// order.
class Brought {
 public:
  Brought(const Operator& op, const OperatorSchedule& schedule)
      : op_(op), schedule_(schedule), brought_by_(op.tensors.size(), 0) {}

  bool any_is_awaited() {
    return any([&](const OperatorSegment& segment) {
      const bool is_behind_boundary = last_ == nullptr || last_->sync == Sync::event;
      return takes_any(segment) && !is_behind_boundary;
    });
  }

  // The same of waits for peers: nothing orders these with collectives that may begin before them,
  // and that no kernel has followed yet.
  bool any_is_beside_waits() {
    std::vector<size_t> made_in(op_.tensors.size(), 0);  // by tensor: a segment's number, from 1
    size_t number = 0, waits_in = 0;                     // of the last segment that waits
    return any([&](const OperatorSegment& segment) {
      ++number;
      if (schedule_.split == 1) takes_any(segment);  // else other parts' have not been followed
      for (const int id : segment.stages) {
        made_in[static_cast<size_t>(op_.stage(id).out)] = number;
      }
      if (!segment.product) return false;
      if (waits_for_peers(*segment.product, *last_)) {
        waits_in = number;
        return std::any_of(brought_by_.begin(), brought_by_.end(),
                           [&](size_t by) { return by > 0; });
      }
      const bool is_brought =
          segment.product->kind.in != Edge::none && is_by_collectives(op_, *last_);
      // Of parts of rows one may be made while another's maker waits.
      const size_t made = made_in[static_cast<size_t>(segment.input)] + (schedule_.split == 1);
      return is_brought && waits_in > 0 && waits_in >= made;
    });
  }

 private:
  // `is` of any segment, once with what was brought before it.
  template <class Is>
  bool any(const Is& is) {
    for (const OperatorSegment& segment : op_.segments) {
      if (segment.product) last_ = &schedule_.products.at(next_++);
      if (is(segment)) return true;
      bring(segment);
    }
    return false;
  }

  // Who reads one has waited for it, and so has all that comes behind.
  bool takes_any(const OperatorSegment& segment) {
    bool any = false;
    for (const int id : segment.stages) {
      for (const int tensor : op_.stage(id).in) {
        const size_t by = brought_by_[static_cast<size_t>(tensor)];
        if (by == 0) continue;
        any = true;
        std::replace(brought_by_.begin(), brought_by_.end(), by, size_t{0});
      }
    }
    return any;
  }

  void bring(const OperatorSegment& segment) {
    if (segment.product) {
      const Segment& product = *segment.product;
      const bool is_brought = product.kind.out != Edge::none && is_by_collectives(op_, *last_);
      if (is_brought) brought_by_[static_cast<size_t>(segment.result)] = next_;
      makes_rows_ =
          is_brought && last_->collectives == CollectivesBy::low_latency && product.adds_for_all();
      return;
    }
    // Such collectives may add and norm their sums as well.
    const std::vector<int>& stages = segment.stages;
    if (makes_rows_ && stages.size() == 2 && op_.stage(stages[1]).kind == StageKind::norm) {
      for (const int id : stages) brought_by_[static_cast<size_t>(op_.stage(id).out)] = next_;
    }
    makes_rows_ = false;
  }

  const Operator& op_;
  const OperatorSchedule& schedule_;
  std::vector<size_t> brought_by_;  // by tensor: the number of the product, from 1; 0: none
  const Schedule* last_ = nullptr;  // whose rows go by it
  size_t next_ = 0;
  bool makes_rows_ = false;
};

bool awaits_what_segments_make(const Operator& op, const OperatorSchedule& schedule) {
  const auto any = [&](const auto& is) {
    return std::any_of(schedule.products.begin(), schedule.products.end(), is);
  };
  if (!any([](const Schedule& one) { return one.mover == Mover::nccl; }) ||
      !any([](const Schedule& one) { return one.sync != Sync::event; })) {
    return false;
  }
  return std::any_of(op.segments.begin(), op.segments.end(), [](const OperatorSegment& one) {
    return one.product && one.product->is_dense() && (one.feeds() || one.product->turns_columns());
  });
}

}  // namespace

int most_kernel_blocks(const Operator& op, const OperatorSchedule& schedule) {
  int most = 0;
  for (const Schedule& one : schedule.products) {
    for (const EdgeKernel& kernel : op.kernels) {
      if (kernel.name == one.kernel) most = std::max(most, kernel.blocks);
    }
  }
  return most;
}

int sms_for_collectives(const Operator& op, const OperatorSchedule& schedule, int set_aside) {
  const int needed = std::max(1, most_kernel_blocks(op, schedule));
  if (set_aside >= needed || op.ranks == 1) return set_aside;
  const bool is_awaited =
      Brought(op, schedule).any_is_awaited() || awaits_what_segments_make(op, schedule);
  return is_awaited || Brought(op, schedule).any_is_beside_waits() ? needed : set_aside;
}

}  // namespace stretto
