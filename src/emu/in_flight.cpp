#include "emu/in_flight.h"

#include <algorithm>

namespace stretto::emu {

Payload Payload::make(int64_t rows, int64_t cols, int64_t element_bytes) {
  const auto bytes = static_cast<size_t>(rows * cols * element_bytes);
  return {std::shared_ptr<std::byte[]>(new std::byte[bytes]), cols};
}

InFlight::InFlight(const Plan& plan, Memory& memory, Signals& signals, Faults& faults,
                   Scheduler& scheduler)
    : plan_(plan),
      memory_(memory),
      signals_(signals),
      faults_(faults),
      scheduler_(scheduler),
      entries_(plan.lanes.size()),
      rank_entries_(static_cast<size_t>(plan.ranks())) {}

void InFlight::write(const Where& where, const Region& region, const Payload& payload,
                     int64_t row) {
  if (region.empty()) return;
  bytes_ += region.elements() * num_bytes(memory_.buffer(region).dtype);
  push({where, true, region, payload, row * payload.stride, 0, 0});
}

void InFlight::notify(const Where& where, size_t counter, int64_t amount) {
  push({where, false, {}, {}, 0, counter, amount});
}

void InFlight::push(Entry entry) {
  const uint32_t lane = entry.where.lane;
  entries_[lane].push_back(std::move(entry));
  ++rank_entries_[plan_.lanes[lane].rank];
  scheduler_.set_in_flight(lane, true);
  while (entries_[lane].size() > scheduler_.max_in_flight()) deliver_some(lane);
  if (bytes_ > kMaxInFlightBytes) deliver_writes(lane);
}

void InFlight::store(const Entry& entry, const Region& region) {
  const int64_t element_bytes = num_bytes(memory_.buffer(region).dtype);
  const int64_t first = entry.first +
                        int64_t{region.row0 - entry.region.row0} * entry.payload.stride +
                        (region.col0 - entry.region.col0);
  const int64_t overtaken =
      memory_.write(region, entry.where.run, entry.payload.bytes.get() + first * element_bytes,
                    entry.payload.stride);
  bytes_ -= region.elements() * element_bytes;
  if (overtaken > 0) faults_.overtaken_write(entry.where, region, overtaken);
}

void InFlight::deliver(uint32_t lane, size_t index) {
  std::vector<Entry>& entries = entries_[lane];
  const Entry& entry = entries[index];
  if (entry.is_write) {
    store(entry, entry.region);
  } else {
    signals_.add(entry.counter, entry.amount, woken_);
  }
  entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(index));
  --rank_entries_[plan_.lanes[lane].rank];
  if (entries.empty()) scheduler_.set_in_flight(lane, false);
}

void InFlight::deliver_some(uint32_t lane) {
  std::vector<Entry>& entries = entries_[lane];
  size_t index = scheduler_.random().below(entries.size());
  index = first_before(lane, index);
  Entry& entry = entries[index];
  if (entry.is_write && scheduler_.split_delivery()) {
    const Memory::Pieces pieces = memory_.cut(entry.region, scheduler_.random());
    if (!pieces.second.empty()) {
      store(entry, pieces.first);
      entry.first += int64_t{pieces.second.row0 - entry.region.row0} * entry.payload.stride +
                     (pieces.second.col0 - entry.region.col0);
      entry.region = pieces.second;
      return;
    }
  }
  deliver(lane, index);
}

size_t InFlight::first_before(uint32_t lane, size_t index) const {
  const std::vector<Entry>& entries = entries_[lane];
  for (size_t i = 0; i < index; ++i) {
    if (!entries[i].is_write) continue;
    if (!entries[index].is_write || entries[i].region.overlaps(entries[index].region)) {
      return first_before(lane, i);
    }
  }
  return index;
}

void InFlight::deliver_overlapping(uint32_t lane, const Region& region) {
  const std::vector<Entry>& entries = entries_[lane];
  for (size_t i = 0; i < entries.size();) {
    if (!entries[i].is_write || !entries[i].region.overlaps(region)) {
      ++i;
      continue;
    }
    deliver(lane, first_before(lane, i));
    i = 0;
  }
}

void InFlight::deliver_writes(uint32_t lane) {
  std::vector<Entry>& entries = entries_[lane];
  for (size_t i = 0; i < entries.size();) {
    if (entries[i].is_write) {
      deliver(lane, i);
    } else {
      ++i;
    }
  }
}

}  // namespace stretto::emu
