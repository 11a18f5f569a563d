#include "run/plan_memory.h"

#include <fmt/format.h>

#include "stretto/error.h"

namespace stretto::runtime {

using cuda::check;
using cuda::driver;

PlanMemory::PlanMemory(const Plan& plan, const cuda::TileSums& sums, fabric::Fabric& fabric,
                       const Bindings& bindings)
    : plan_(plan),
      fabric_(fabric),
      shared_(plan.buffers.size(), false),
      bound_(plan.buffers.size(), false) {
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    const Buffer& buffer = plan.buffers[b];
    const bool is_empty = sums.needs_no_memory(static_cast<uint16_t>(b));
    bytes_.push_back(is_empty
                         ? 0
                         : static_cast<size_t>(buffer.rows) * static_cast<size_t>(buffer.cols) *
                               static_cast<size_t>(stretto::num_bytes(buffer.dtype)));
  }
  find_shared();
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
  bind_regions(bindings);
  place_shared();
  fabric.group().together("placing buffers", [&] { place_local(bindings); });
}

PlanMemory::~PlanMemory() {
  for (size_t i = 0; i < local_.size(); ++i) {
    driver().context_set(fabric_.device(fabric_.first_rank() + static_cast<int>(i)).context());
    local_[i].clear();
  }
}

void PlanMemory::find_shared() {
  for (size_t b = 0; b < shared_.size(); ++b) {
    shared_[b] = plan_.buffers[b].role == BufferRole::symmetric;
  }
  for (const Lane& lane : plan_.lanes) {
    for (const Instr& instr : lane.instrs) {
      for (const auto& regions : {plan_.reads(instr), plan_.writes(instr)}) {
        for (const Region& region : regions) {
          if (region.rank != lane.rank) shared_[region.buffer] = true;
        }
      }
    }
  }
}

void PlanMemory::bind_regions(const Bindings& bindings) {
  for (const auto& [name, region] : bindings.symmetric) {
    const auto index = plan_.find_buffer(name);
    if (!index) throw UsageError(fmt::format("the plan has no buffer {} to bind", name));
    const size_t needed = bytes_[*index] * plan_.buffers[*index].copies;
    if (region->num_bytes() < needed) {
      throw UsageError(fmt::format("buffer {} needs {} bytes; the region bound to it has {}", name,
                                   needed, region->num_bytes()));
    }
    bound_[*index] = true;
    for (int i = 0; i < fabric_.num_local(); ++i) {
      for (int rank = 0; rank < plan_.ranks(); ++rank) {
        auto& places = places_[static_cast<size_t>(i)][static_cast<size_t>(rank)][*index];
        for (size_t copy = 0; copy < places.size(); ++copy) {
          places[copy] = region->address(rank, fabric_.first_rank() + i) + copy * bytes_[*index];
        }
      }
    }
  }
}

void PlanMemory::place_shared() {
  constexpr size_t kAlignment = 1024;
  const auto aligned = [](size_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  };
  size_t total = 0;
  for (size_t b = 0; b < shared_.size(); ++b) {
    if (shared_[b] && !bound_[b]) total += aligned(bytes_[b]) * plan_.buffers[b].copies;
  }
  if (total == 0) return;
  region_ = fabric_.allocate(total, "the buffers of a plan");
  for (int i = 0; i < fabric_.num_local(); ++i) {
    const int viewer = fabric_.first_rank() + i;
    for (int rank = 0; rank < plan_.ranks(); ++rank) {
      size_t at = 0;
      for (size_t b = 0; b < shared_.size(); ++b) {
        if (!shared_[b] || bound_[b]) continue;
        for (auto& place : places_[static_cast<size_t>(i)][static_cast<size_t>(rank)][b]) {
          place = region_.address(rank, viewer) + at;
          at += aligned(bytes_[b]);
        }
      }
    }
  }
}

void PlanMemory::place_local(const Bindings& bindings) {
  for (const auto& [name, addresses] : bindings.own) {
    const auto index = plan_.find_buffer(name);
    if (!index) throw UsageError(fmt::format("the plan has no buffer {} to bind", name));
    if (shared_[*index]) {
      throw UsageError(fmt::format(
          "buffer {} cannot be the caller's: other ranks reach it; use the plan's own", name));
    }
    if (addresses.size() != static_cast<size_t>(fabric_.num_local())) {
      throw UsageError(fmt::format("buffer {} is bound to {} addresses; this process has {} ranks",
                                   name, addresses.size(), fabric_.num_local()));
    }
    bound_[*index] = true;
  }
  for (int i = 0; i < fabric_.num_local(); ++i) {
    const int rank = fabric_.first_rank() + i;
    fabric_.device(rank).make_current();
    auto& memory = local_.emplace_back();
    for (size_t b = 0; b < shared_.size(); ++b) {
      const auto own = bindings.own.find(plan_.buffers[b].name);
      if (shared_[b] || (bound_[b] && own == bindings.own.end())) continue;
      auto& places = places_[static_cast<size_t>(i)][static_cast<size_t>(rank)][b];
      for (auto& place : places) {
        place = bound_[b] ? own->second[static_cast<size_t>(i)]
                          : memory.emplace_back(bytes_[b]).address();
      }
    }
  }
}

void PlanMemory::poison(int rank, const cuda::Stream& stream) const {
  const auto& own = places(rank)[static_cast<size_t>(rank)];
  for (size_t b = 0; b < own.size(); ++b) {
    if (bound_[b] || bytes_[b] == 0) continue;
    for (const cuda::DevicePtr place : own[b]) {
      check(driver().fill_bytes(place, 0xff, bytes_[b], stream.handle()), "poison a buffer");
    }
  }
}

}  // namespace stretto::runtime
