#include "emu/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "plan/chosen_operands.h"
#include "tasks/elements.h"
#include "tasks/work.h"

namespace stretto::emu {

Collectives::Collectives(const Plan& plan, Memory& memory, InFlight& in_flight, Faults& faults,
                         Tasks& tasks, Random& random, uint64_t seed)
    : plan_(plan),
      memory_(memory),
      in_flight_(in_flight),
      faults_(faults),
      tasks_(tasks),
      random_(random),
      edge_calls_(plan, seed) {}

int Collectives::joined(const Where& where) const {
  const auto found = waiting_.find(meeting_of(where));
  return found == waiting_.end() ? 0 : static_cast<int>(found->second.size());
}

std::vector<uint32_t> Collectives::join(const Where& where) {
  // The order of a stream: what the lane did before is done when its part starts.
  in_flight_.deliver_writes(where.lane);
  std::vector<Part>& parts = waiting_[meeting_of(where)];
  Part part{where, tasks_.sound(where), {}};
  if (part.sound && random_.chance(50)) part.reads = read(where);
  parts.push_back(std::move(part));
  if (parts.size() < static_cast<size_t>(joined_by(where).count)) return {};

  std::vector<Part> all = std::move(parts);
  waiting_.erase(meeting_of(where));
  std::sort(all.begin(), all.end(), [&](const Part& left, const Part& right) {
    return plan_.lanes[left.where.lane].rank < plan_.lanes[right.where.lane].rank;
  });
  if (agree(all)) finish(all);
  std::vector<uint32_t> lanes;
  for (const Part& one : all) lanes.push_back(one.where.lane);
  return lanes;
}

std::vector<Payload> Collectives::read(const Where& where) {
  std::vector<Payload> payloads;
  for (const Region& region : plan_.reads(instr(where))) {
    const int64_t element_bytes = num_bytes(memory_.buffer(region).dtype);
    Payload payload = Payload::make(region.rows(), region.cols(), element_bytes);
    if (!region.empty()) {
      const tasks::MatrixView view = tasks_.read(where, region, space_);
      const auto row_bytes = static_cast<size_t>(region.cols() * element_bytes);
      for (int64_t row = 0; row < region.rows(); ++row) {
        std::memcpy(payload.bytes.get() + static_cast<size_t>(row) * row_bytes,
                    static_cast<const std::byte*>(view.data) + row * view.stride * element_bytes,
                    row_bytes);
      }
    }
    payloads.push_back(std::move(payload));
  }
  return payloads;
}

// Ranks in order, one each, the same operation, one element type, shapes that agree in pairs.
bool Collectives::agree(const std::vector<Part>& parts) {
  const Instr& first = instr(parts[0].where);
  const size_t ranks = parts.size();
  const auto refuse = [&](const Part& part, const std::string& why) {
    faults_.disagreement(part.where, why);
    return false;
  };
  const Region& sample = plan_.operands[first.first_operand];
  const auto team = static_cast<size_t>(joined_by(parts[0].where).first);
  for (size_t number = 0; number < ranks; ++number) {
    const Part& part = parts[number];
    const size_t rank = team + number;
    if (!part.sound) return false;
    const Instr& own = instr(part.where);
    if (plan_.lanes[part.where.lane].rank != rank) {
      return refuse(part, fmt::format("collective {} is not joined once by each rank", first.id));
    }
    if (part.where.run != parts[0].where.run || own.collective != first.collective ||
        own.team != first.team || own.kernel() != first.kernel() || own.amount != first.amount ||
        own.num_reads != first.num_reads || own.num_writes != first.num_writes) {
      return refuse(part, fmt::format("rank {} joins another collective {} than rank {}", rank,
                                      first.id, team));
    }
    if (form_of(first.collective).goes_by_ids()) {
      if (chosen_operands(plan_, own) == chosen_operands(plan_, first)) continue;
      return refuse(part, fmt::format("rank {} passes other sizes than rank {}", rank, team));
    }
    for (uint32_t i = 0; i < uint32_t{own.num_reads} + own.num_writes; ++i) {
      const Region& region = plan_.operands[own.first_operand + i];
      if (memory_.buffer(region).dtype != memory_.buffer(sample).dtype) {
        return refuse(part, "the operands of a collective have different element types");
      }
    }
    // What this rank writes must have the shape of what the others read for it.
    const CollectiveForm& form = form_of(first.collective);
    const size_t parts_each = form.parts(own.num_reads, ranks);
    for (size_t source = 0; source < ranks; ++source) {
      const Instr& other = instr(parts[source].where);
      for (size_t i = 0; i < parts_each; ++i) {
        const Region& read = plan_.reads(other)[form.groups_reads ? number * parts_each + i : i];
        const Region& write = plan_.writes(own)[form.groups_writes ? source * parts_each + i : i];
        if (read.rows() != write.rows() || read.cols() != write.cols()) {
          return refuse(part,
                        fmt::format("rank {} gives {} where {} is to be written", team + source,
                                    describe(plan_, read), describe(plan_, write)));
        }
      }
    }
  }
  return true;
}

void Collectives::finish(std::vector<Part>& parts) {
  const CollectiveKind kind = instr(parts[0].where).collective;
  const size_t ranks = parts.size();
  for (Part& part : parts) {
    if (!part.reads) part.reads = read(part.where);
  }
  if (instr(parts[0].where).kernel() > 0) return call_kernel(parts);
  const auto each_sum = [&](size_t read, const Region& shape, int owner) {
    std::vector<Payload> terms;
    for (const Part& part : parts) terms.push_back((*part.reads)[read]);
    return sum_of(terms, shape, owner);
  };
  const auto write = [&](const Part& part, size_t index, const Payload& payload) {
    in_flight_.write(part.where, plan_.writes(instr(part.where))[index], payload, 0);
  };
  switch (kind) {
    case CollectiveKind::all_gather: {
      const size_t each = parts[0].reads->size();
      for (const Part& part : parts) {
        for (size_t i = 0; i < ranks * each; ++i) {
          write(part, i, (*parts[i / each].reads)[i % each]);
        }
      }
      break;
    }
    case CollectiveKind::reduce_scatter:
      for (size_t owner = 0; owner < ranks; ++owner) {
        const std::span<const Region> writes = plan_.writes(instr(parts[owner].where));
        for (size_t i = 0; i < writes.size(); ++i) {
          const size_t read = owner * writes.size() + i;
          write(parts[owner], i, each_sum(read, writes[i], static_cast<int>(owner)));
        }
      }
      break;
    case CollectiveKind::all_reduce: {
      const std::span<const Region> shapes = plan_.writes(instr(parts[0].where));
      for (size_t i = 0; i < shapes.size(); ++i) {
        const Payload sum = each_sum(i, shapes[i], -1);
        for (const Part& part : parts) write(part, i, sum);
      }
      break;
    }
    case CollectiveKind::all_to_all: {
      const size_t each = parts[0].reads->size() / ranks;
      for (size_t to = 0; to < ranks; ++to) {
        for (size_t i = 0; i < ranks * each; ++i) {
          write(parts[to], i, (*parts[i / each].reads)[to * each + i % each]);
        }
      }
      break;
    }
    case CollectiveKind::all_reduce_norm:
      for (const Part& part : parts) write_normed(parts, part);
      break;
    case CollectiveKind::dispatch:
    case CollectiveKind::dispatch_all:
      send_chosen(parts);
      break;
    case CollectiveKind::combine:
    case CollectiveKind::combine_all:
      sum_chosen(parts);
      break;
  }
}

void Collectives::call_kernel(const std::vector<Part>& parts) {
  const Instr& first = instr(parts[0].where);
  std::vector<EdgeCalls::Bytes> inputs;
  for (const Part& part : parts) {
    EdgeCalls::Bytes& bytes = inputs.emplace_back();
    const std::span<const Region> reads = plan_.reads(instr(part.where));
    for (size_t i = 0; i < reads.size(); ++i) {
      const auto size =
          static_cast<size_t>(reads[i].elements() * num_bytes(memory_.buffer(reads[i]).dtype));
      const std::byte* const from = (*part.reads)[i].bytes.get();
      bytes.insert(bytes.end(), from, from + size);
    }
  }
  if (kernel_call_sizes(plan_, first).count == 0) return;
  std::string finding;
  const auto results = edge_calls_.make(first, std::move(inputs), finding);
  if (!finding.empty()) {
    const std::string& name = plan_.op.kernels[first.kernel() - 1].name;
    return faults_.in_kernel(parts[0].where, name, finding);
  }
  for (size_t r = 0; r < parts.size(); ++r) {
    const std::byte* from = results[r].data();
    const std::span<const Region> writes = plan_.writes(instr(parts[r].where));
    for (const Region& region : writes) {
      const int64_t element = num_bytes(memory_.buffer(region).dtype);
      Payload payload = Payload::make(region.rows(), region.cols(), element);
      const auto size = static_cast<size_t>(region.elements() * element);
      if (size > 0) std::memcpy(payload.bytes.get(), from, size);
      from += size;
      if (size > 0) in_flight_.write(parts[r].where, region, payload, 0);
    }
  }
}

// Computes what the tasks `reduce`, of all terms and the residual, and `norm` of its result would.
void Collectives::write_normed(const std::vector<Part>& parts, const Part& part) {
  const std::span<const Region> reads = plan_.reads(instr(part.where)),
                                writes = plan_.writes(instr(part.where));
  const int64_t rows = reads[0].rows(), cols = reads[0].cols();
  const DType dtype = memory_.buffer(reads[0]).dtype;
  const auto operand = [&](const Payload& payload, int64_t its_rows) {
    return tasks::Operand{{payload.bytes.get(), cols, dtype}, its_rows, cols};
  };
  const auto make = [&](Opcode op, const std::vector<tasks::Operand>& operands, float number) {
    Payload made = Payload::make(rows, cols, num_bytes(dtype));
    kind_of(op)->compute({operands, rows, cols, {made.bytes.get(), cols, dtype}, number, scratch_});
    return made;
  };
  std::vector<tasks::Operand> terms;
  for (const Part& one : parts) terms.push_back(operand((*one.reads)[0], rows));
  terms.push_back(operand((*part.reads)[1], rows));
  const Payload sum = make(Opcode::reduce, terms, 0);
  const Payload normed = make(Opcode::norm, {operand(sum, rows), operand((*part.reads)[2], 1)},
                              instr(part.where).attribute());
  in_flight_.write(part.where, writes[0], sum, 0);
  in_flight_.write(part.where, writes[1], normed, 0);
}

Payload Collectives::sum_of(const std::vector<Payload>& terms, const Region& shape, int owner) {
  const DType dtype = memory_.buffer(shape).dtype;
  const int64_t element_bytes = num_bytes(dtype);
  const auto ranks = static_cast<int64_t>(terms.size());
  Payload sum = Payload::make(shape.rows(), shape.cols(), element_bytes);
  const int64_t elements = shape.elements();
  const bool is_ring = !plan_.low_latency_collectives;
  const int64_t part = owner < 0 ? (elements + ranks - 1) / ranks : elements;
  std::vector<float> line(512);
  for (int64_t begin = 0; begin < elements;) {
    const int64_t of = owner < 0 ? begin / part : owner;
    const int64_t stop = owner < 0 ? std::min(elements, (of + 1) * part) : elements;
    const int64_t count = std::min(stop - begin, static_cast<int64_t>(line.size()));
    const auto width = static_cast<size_t>(count);
    const auto at = [&](const Payload& payload) {
      return payload.bytes.get() + begin * element_bytes;
    };
    // From hop to hop of a ring, rounded at each; or by who gets it, in rank order.
    const int64_t first = is_ring ? of + 1 : 0;
    tasks::widen(dtype, at(terms[static_cast<size_t>(first % ranks)]), line.data(), width);
    for (int64_t hop = 1; hop < ranks; ++hop) {
      tasks::add_elements(dtype, at(terms[static_cast<size_t>((first + hop) % ranks)]), line.data(),
                          width);
      if (!is_ring) continue;
      tasks::round_elements(dtype, line.data(), at(sum), width);
      tasks::widen(dtype, at(sum), line.data(), width);
    }
    tasks::round_elements(dtype, line.data(), at(sum), width);
    begin += count;
  }
  return sum;
}

}  // namespace stretto::emu
