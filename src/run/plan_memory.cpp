#include "run/plan_memory.h"

#include "calls/shared_results.h"
#include "launch/call_places.h"
#include "launch/choice_rows.h"
#include "plan/shared_buffers.h"
#include "stretto/call.h"
#include "stretto/error.h"
#include "tables/call_lists.h"

namespace stretto::runtime {

using cuda::check;
using cuda::driver;

namespace {

constexpr size_t kAlignment = 1024;  // of a shared buffer's instance

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::vector<size_t> bytes_of_buffers(const Plan& plan, const cuda::TileSums& sums) {
  std::vector<size_t> bytes;
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    const Buffer& buffer = plan.buffers[b];
    const bool is_empty = sums.needs_no_memory(static_cast<uint16_t>(b));
    bytes.push_back(is_empty ? 0
                             : static_cast<size_t>(cuda::rows_in_memory(plan, buffer)) *
                                   static_cast<size_t>(buffer.cols) *
                                   static_cast<size_t>(stretto::num_bytes(buffer.dtype)));
  }
  return bytes;
}

size_t shared_bytes_of(const Plan& plan, const std::vector<size_t>& bytes,
                       const std::vector<bool>& shared, const std::vector<bool>& stands_in) {
  size_t total = 0;
  for (size_t b = 0; b < shared.size(); ++b) {
    if (shared[b] && !stands_in[b]) total += aligned(bytes[b]) * plan.buffers[b].copies;
  }
  return total;
}

// Several weights of one product, which a library multiplies by at once where they lie behind one
// another.
std::vector<std::vector<uint16_t>> weights_together(const Plan& plan) {
  std::vector<std::vector<uint16_t>> all;
  for (const OperatorSegment& segment : plan.op.segments) {
    if (!segment.product || !segment.product->is_dense() || segment.weights.size() < 2) continue;
    std::vector<uint16_t>& buffers = all.emplace_back();
    for (const int weight : segment.weights) {
      const auto buffer = plan.find_buffer(plan.op.tensor(weight).name);
      if (buffer && plan.buffers[*buffer].role == BufferRole::input) buffers.push_back(*buffer);
    }
  }
  return all;
}

}  // namespace

size_t bytes_between_ranks(const Plan& plan) {
  return shared_bytes_of(plan, bytes_of_buffers(plan, cuda::TileSums(plan)), shared_buffers(plan),
                         std::vector<bool>(plan.buffers.size()));
}

size_t bytes_of_own(const Plan& plan) {
  const std::vector<size_t> bytes = bytes_of_buffers(plan, cuda::TileSums(plan));
  const std::vector<bool> shared = shared_buffers(plan);
  size_t total = 0;
  for (size_t b = 0; b < bytes.size(); ++b) {
    const bool is_caller_s =
        plan.buffers[b].role == BufferRole::input || plan.buffers[b].role == BufferRole::output;
    if (!shared[b] && !is_caller_s) total += bytes[b] * plan.buffers[b].copies;
  }
  return total;
}

PlanMemory::PlanMemory(const Plan& plan, const cuda::TileSums& sums, fabric::Fabric& fabric,
                       bool tensors_at_calls, Workspace* workspace, bool shared_results)
    : plan_(plan),
      fabric_(fabric),
      bytes_(bytes_of_buffers(plan, sums)),
      shared_(shared_buffers(plan)),
      stands_in_(plan.buffers.size(), false) {
  const auto ranks = static_cast<size_t>(plan.ranks());
  places_.assign(
      static_cast<size_t>(fabric.num_local()),
      cuda::BufferPlaces(ranks, std::vector<std::vector<cuda::DevicePtr>>(plan.buffers.size())));
  for (auto& place : places_) {
    for (auto& of_rank : place) {
      for (size_t b = 0; b < plan.buffers.size(); ++b) {
        of_rank[b].assign(plan.buffers[b].copies, 0);
      }
    }
  }
  if (tensors_at_calls) place_stand_ins(shared_results);
  place_shared(workspace);
  fabric.group().together("placing buffers", [&] { place_local(); });
}

PlanMemory::~PlanMemory() {
  for (size_t i = 0; i < local_.size(); ++i) {
    driver().context_set(fabric_.device(fabric_.first_rank() + static_cast<int>(i)).context());
    local_[i].clear();
  }
}

void PlanMemory::place_stand_ins(bool shared_results) {
  const std::vector<CallerTensor> tensors = caller_tensors(plan_.op);
  const std::vector<bool> written = written_by_others(plan_);
  const std::vector<bool> uneven = cuda::buffers_of_uneven_collectives(plan_);
  size_t next_of_others = tensors.size();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto buffer = plan_.find_buffer(plan_.op.tensor(tensors[i].tensor).name);
    STRETTO_ASSERT(buffer.has_value(), "a caller's tensor is a buffer of the plan");
    const bool on_all = shared_results && written[*buffer];
    if ((shared_[*buffer] && !on_all) || uneven[*buffer]) continue;
    stands_in_[*buffer] = true;
    const auto ranks = static_cast<size_t>(plan_.ranks());
    for (int local = 0; local < fabric_.num_local(); ++local) {
      const auto own = static_cast<size_t>(fabric_.first_rank() + local);
      for (size_t rank = 0; rank < ranks; ++rank) {
        if (rank != own && !on_all) continue;
        for (auto& place : places_[static_cast<size_t>(local)][rank][*buffer]) {
          place = cuda::stand_in(rank == own ? i : next_of_others + rank);
        }
      }
    }
    if (on_all) next_of_others += ranks;
  }
}

void PlanMemory::place_shared(Workspace* workspace) {
  const size_t total = shared_bytes_ = shared_bytes_of(plan_, bytes_, shared_, stands_in_);
  if (total == 0) return;
  has_workspace_ = workspace != nullptr;
  if (has_workspace_) {
    in_workspace_ = workspace->take(total);
  } else {
    region_ = fabric_.allocate(total, "the buffers of a plan");
  }
  const fabric::Region& region = has_workspace_ ? *in_workspace_.region : region_;
  for (int i = 0; i < fabric_.num_local(); ++i) {
    const int viewer = fabric_.first_rank() + i;
    for (int rank = 0; rank < plan_.ranks(); ++rank) {
      size_t at = in_workspace_.bytes.begin;
      for (size_t b = 0; b < shared_.size(); ++b) {
        if (!shared_[b] || stands_in_[b]) continue;
        for (auto& place : places_[static_cast<size_t>(i)][static_cast<size_t>(rank)][b]) {
          place = region.address(rank, viewer) + at;
          at += aligned(bytes_[b]);
        }
      }
    }
  }
}

void PlanMemory::place_local() {
  for (int i = 0; i < fabric_.num_local(); ++i) {
    const int rank = fabric_.first_rank() + i;
    fabric_.device(rank).make_current();
    auto& memory = local_.emplace_back();
    auto& places = places_[static_cast<size_t>(i)][static_cast<size_t>(rank)];
    const auto is_own = [&](size_t b) { return !shared_[b] && !stands_in_[b]; };
    for (const std::vector<uint16_t>& buffers : weights_together(plan_)) {
      size_t bytes = 0;
      bool goes = true;
      for (const uint16_t b : buffers) {
        bytes += bytes_[b];
        goes = goes && is_own(b) && places[b] == std::vector<cuda::DevicePtr>{0} &&
               bytes_[b] % kAlignment == 0;
      }
      if (!goes || buffers.size() < 2) continue;
      cuda::DevicePtr at = memory.emplace_back(bytes).address();
      for (const uint16_t b : buffers) {
        places[b][0] = at;
        at += bytes_[b];
      }
    }
    for (size_t b = 0; b < shared_.size(); ++b) {
      if (!is_own(b)) continue;
      for (auto& place : places[b]) {
        if (place == 0) place = memory.emplace_back(bytes_[b]).address();
      }
    }
  }
}

void PlanMemory::poison(int rank, const cuda::Stream& stream) const {
  const auto& own = places(rank)[static_cast<size_t>(rank)];
  for (size_t b = 0; b < own.size(); ++b) {
    if (stands_in_[b] || bytes_[b] == 0 || (has_workspace_ && shared_[b])) continue;
    for (const cuda::DevicePtr place : own[b]) {
      check(driver().fill_bytes(place, 0xff, bytes_[b], stream.handle()), "poison a buffer");
    }
  }
}

}  // namespace stretto::runtime
