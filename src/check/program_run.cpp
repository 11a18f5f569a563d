#include "check/program_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "check/wording.h"

namespace stretto::checker {
namespace {

using cuda::BlockPart;
using cuda::Step;
using cuda::StepKind;

constexpr uint32_t kNobody = UINT32_MAX;

class Streams {
 public:
  Streams(const Plan& plan, const InstrIndex& index, const Counters& counters,
          const std::vector<cuda::RankProgram>& programs, const ProgramPlaces& places,
          Findings& findings, size_t queues)
      : plan_(plan),
        index_(index),
        counters_(counters),
        programs_(programs),
        places_(places),
        findings_(findings),
        told_(counters.size(), 0),
        waiting_(counters.size()) {
    for (size_t rank = 0; rank < programs.size(); ++rank) {
      first_stream_.push_back(static_cast<uint32_t>(streams_.size()));
      queues_.push_back({programs[rank].streams.size() > queues});
      for (uint32_t s = 0; s < programs[rank].streams.size(); ++s) streams_.push_back({rank, s});
      recorded_.emplace_back(programs[rank].num_events, false);
      record_stream_.emplace_back(programs[rank].num_events, kNobody);
      for (uint32_t s = 0; s < programs[rank].streams.size(); ++s) {
        for (const Step& step : programs[rank].streams[s].steps) {
          if (step.kind == StepKind::record) record_stream_[rank][step.index] = s;
        }
      }
    }
  }

  void run() {
    for (uint32_t s = static_cast<uint32_t>(streams_.size()); s-- > 0;) ready_.push_back({s});
    while (!ready_.empty()) {
      const Agent agent = ready_.back();
      ready_.pop_back();
      if (agent.block == kNobody) {
        advance(agent.stream);
      } else {
        advance_block(agent);
      }
    }
    report_circles();
  }

 private:
  // A stream, or a block of the kernel that it stands at.
  struct Agent {
    uint32_t stream, block = kNobody;
  };
  struct Block {
    const BlockPart* part;
    uint32_t pos;
    uint32_t waited = 0;  // at its end
    bool has_ended = false;
  };
  struct Stream {
    size_t rank;
    uint32_t number;
    uint32_t at = 0;                 // the next step, or the one that it is in
    bool has_begun = false;          // that step: a kernel or a collective
    bool is_past_queue = false;      // the same step
    std::vector<Block> blocks = {};  // of that kernel
    size_t running = 0;              // blocks that have not ended
  };
  // What a rank enqueues, where its streams share a queue.
  struct Queue {
    bool is_one;
    size_t next = 0;  // in the program's order: what begins next
  };
  // Who waits for a counter.
  struct Waiting {
    int64_t least = INT64_MAX;
    std::vector<std::pair<int64_t, Agent>> agents;
  };

  const cuda::RankProgram& program(const Stream& stream) const { return programs_[stream.rank]; }
  const std::vector<Step>& steps(const Stream& stream) const {
    return program(stream).streams[stream.number].steps;
  }
  bool has_ended(uint32_t s) const { return streams_[s].at == steps(streams_[s]).size(); }
  StepPlace place(uint32_t s) const { return {streams_[s].number, streams_[s].at}; }

  void advance(uint32_t s) {
    Stream& stream = streams_[s];
    while (!has_ended(s) && pass(s, steps(stream)[stream.at])) {
      ++stream.at;
      stream.has_begun = stream.is_past_queue = false;
    }
  }

  // Whether the step has ended.
  bool pass(uint32_t s, const Step& step) {
    if (is_held_up(s)) return false;
    const bool has_ended = make(s, step);
    Stream& stream = streams_[s];
    Queue& queue = queues_[stream.rank];
    if (!queue.is_one || stream.is_past_queue || !(has_ended || stream.has_begun)) return has_ended;
    stream.is_past_queue = true;
    ++queue.next;
    if (const uint32_t next = next_of_queue(stream.rank); next != kNobody) ready_.push_back({next});
    return has_ended;
  }
  bool is_held_up(uint32_t s) const {
    const Stream& stream = streams_[s];
    if (!queues_[stream.rank].is_one || stream.is_past_queue) return false;
    return program(stream).order[queues_[stream.rank].next] != std::pair(stream.number, stream.at);
  }
  // The stream whose step is the next of the rank's queue.
  uint32_t next_of_queue(size_t rank) const {
    const auto& order = programs_[rank].order;
    const size_t next = queues_[rank].next;
    return next < order.size() ? first_stream_[rank] + order[next].first : kNobody;
  }

  bool make(uint32_t s, const Step& step) {
    Stream& stream = streams_[s];
    switch (step.kind) {
      case StepKind::gemm:
      case StepKind::move:
        if (!stream.has_begun) start(s, step);
        return stream.running == 0;
      case StepKind::wait:
        return pass_wait({step.lane, step.position}, {s});
      case StepKind::notify:
        tell({step.lane, step.position});
        return true;
      case StepKind::collective:
        return meet(s, step);
      case StepKind::record:
        recorded_[stream.rank][step.index] = true;
        wake_awaiting(stream.rank);
        return true;
      case StepKind::await:
        return recorded_[stream.rank][step.index];
      case StepKind::copy:
      case StepKind::route:
        return true;
    }
    return true;
  }

  void wake_awaiting(size_t rank) {
    const size_t count = programs_[rank].streams.size();
    for (uint32_t s = first_stream_[rank]; s < first_stream_[rank] + count; ++s) {
      if (!has_ended(s) && steps(streams_[s])[streams_[s].at].kind == StepKind::await) {
        ready_.push_back({s});
      }
    }
  }

  void start(uint32_t s, const Step& step) {
    Stream& stream = streams_[s];
    stream.has_begun = true;
    stream.blocks.clear();
    const auto add = [&](const std::vector<BlockPart>& blocks) {
      for (const BlockPart& part : blocks) stream.blocks.push_back({&part, part.begin});
    };
    const cuda::RankProgram& of = program(stream);
    add((step.kind == StepKind::gemm ? of.gemms : of.moves)[step.index]);
    if (step.kind == StepKind::gemm && of.movers[step.index]) add(of.moves[*of.movers[step.index]]);
    stream.running = stream.blocks.size();
    for (uint32_t block = 0; block < stream.blocks.size(); ++block) ready_.push_back({s, block});
  }

  void advance_block(Agent agent) {
    Stream& stream = streams_[agent.stream];
    Block& block = stream.blocks[agent.block];
    const BlockPart& part = *block.part;
    const std::vector<Instr>& instrs = plan_.lanes[part.lane].instrs;
    for (; block.pos < part.end; ++block.pos) {
      const Opcode op = instrs[block.pos].op;
      if (op == Opcode::notify) tell({part.lane, block.pos});
      if (op == Opcode::wait && !pass_wait({part.lane, block.pos}, agent)) return;
    }
    for (; block.waited < part.at_end.size(); ++block.waited) {
      const Step& wait = part.at_end[block.waited];
      if (!pass_wait({wait.lane, wait.position}, agent)) return;
    }
    block.has_ended = true;
    if (--stream.running == 0) ready_.push_back({agent.stream});
  }

  bool pass_wait(InstrRef ref, Agent agent) {
    const Instr& wait = plan_.lanes[ref.lane].instrs[ref.pos];
    if (wait.lag > 0) return true;
    const uint32_t c = counters_.of(index_.of(ref));
    if (told_[c] >= wait.amount) return true;
    waiting_[c].agents.push_back({wait.amount, agent});
    waiting_[c].least = std::min(waiting_[c].least, wait.amount);
    return false;
  }

  void tell(InstrRef ref) {
    const uint32_t c = counters_.of(index_.of(ref));
    told_[c] += plan_.lanes[ref.lane].instrs[ref.pos].amount;
    Waiting& waiting = waiting_[c];
    if (told_[c] < waiting.least) return;
    waiting.least = INT64_MAX;
    std::erase_if(waiting.agents, [&](const auto& one) {
      if (one.first > told_[c]) {
        waiting.least = std::min(waiting.least, one.first);
        return false;
      }
      ready_.push_back(one.second);
      return true;
    });
  }

  bool meet(uint32_t s, const Step& step) {
    Stream& stream = streams_[s];
    Meeting& meeting = meeting_of(stream, step);
    const Plan::Joined joined = plan_.joined_by(step.instr(plan_), static_cast<int>(stream.rank));
    if (!stream.has_begun) {
      stream.has_begun = true;
      meeting.arrived.push_back(s);
      if (meeting.arrived.size() == static_cast<size_t>(joined.count)) {
        for (const uint32_t other : meeting.arrived) {
          if (other != s) ready_.push_back({other});
        }
      }
    }
    return meeting.arrived.size() == static_cast<size_t>(joined.count);
  }
  struct Meeting {
    std::vector<uint32_t> arrived;  // streams
  };
  Meeting& meeting_of(const Stream& stream, const Step& step) {
    const Instr& instr = step.instr(plan_);
    return meetings_[{instr.id, plan_.joined_by(instr, static_cast<int>(stream.rank)).first}];
  }

  // What a stream that stands still waits for.
  struct Blocker {
    uint32_t stream = kNobody;
    std::optional<InstrRef> wait = {};  // where it waits for a counter
    bool is_held_up = false;            // by what is enqueued before it
  };
  Blocker blocker(uint32_t s) {
    const Stream& stream = streams_[s];
    const Step& step = steps(stream)[stream.at];
    if (is_held_up(s)) return {next_of_queue(stream.rank), {}, true};
    if (step.kind == StepKind::wait) return missing({step.lane, step.position});
    if (step.kind == StepKind::await) {
      return {first_stream_[stream.rank] + record_stream_[stream.rank][step.index]};
    }
    if (step.kind == StepKind::collective) return {absent(stream, step)};
    for (const Block& block : stream.blocks) {
      if (block.has_ended) continue;
      const BlockPart& part = *block.part;
      if (block.pos < part.end) return missing({part.lane, block.pos});
      const Step& wait = part.at_end[block.waited];
      return missing({wait.lane, wait.position});
    }
    return {};
  }
  // The stream that has a notify which has not come.
  Blocker missing(InstrRef wait) {
    const Counter& counter = counters_[counters_.of(index_.of(wait))];
    for (const Share& share : counters_.shares(counter)) {
      for (const Note& note : counters_.notes(share)) {
        const Piece* const piece = places_.find(share.lane, note.pos);
        if (piece == nullptr) continue;
        const uint32_t s = first_stream_[plan_.lanes[share.lane].rank] + piece->at.stream;
        if (has_told(s, {share.lane, note.pos}, piece->at)) continue;
        return {s, wait};
      }
    }
    return {kNobody, wait};
  }
  bool has_told(uint32_t s, InstrRef notify, StepPlace at) const {
    const Stream& stream = streams_[s];
    if (stream.at != at.step) return stream.at > at.step;
    return std::any_of(stream.blocks.begin(), stream.blocks.end(), [&](const Block& block) {
      return block.part->lane == notify.lane && block.part->begin <= notify.pos &&
             notify.pos < block.pos;
    });
  }
  uint32_t absent(const Stream& stream, const Step& step) {
    const std::vector<uint32_t>& arrived = meeting_of(stream, step).arrived;
    const Instr& instr = step.instr(plan_);
    const Plan::Joined joined = plan_.joined_by(instr, static_cast<int>(stream.rank));
    for (uint32_t s = 0; s < streams_.size(); ++s) {
      if (!joined.has(static_cast<int>(streams_[s].rank))) continue;
      if (std::find(arrived.begin(), arrived.end(), s) != arrived.end()) continue;
      const std::vector<Step>& all = steps(streams_[s]);
      if (std::any_of(all.begin() + streams_[s].at, all.end(), [&](const Step& other) {
            return other.kind == StepKind::collective && other.instr(plan_).id == instr.id;
          })) {
        return s;
      }
    }
    return kNobody;
  }

  // Every stream that stands still waits for some other; walks along until one comes again.
  void report_circles() {
    std::vector<uint32_t> visited_by(streams_.size(), kNobody);
    for (uint32_t start = 0; start < streams_.size(); ++start) {
      uint32_t s = start;
      uint32_t last = s;
      while (s != kNobody && !has_ended(s) && visited_by[s] == kNobody) {
        visited_by[s] = start;
        last = s;
        s = blocker(s).stream;
      }
      if (has_ended(start)) continue;
      if (s == kNobody) {
        report({last});
      } else if (!has_ended(s) && visited_by[s] == start) {
        std::vector<uint32_t> circle{s};
        for (uint32_t next = blocker(s).stream; next != s; next = blocker(next).stream) {
          circle.push_back(next);
        }
        report(circle);
      }
    }
  }

  std::string standing(uint32_t s, const Blocker& why) const {
    const Stream& stream = streams_[s];
    return at(plan_, program(stream), stream.rank, place(s)) +
           (why.wait         ? fmt::format(", where {} stands", at(plan_, *why.wait))
            : why.is_held_up ? ", which shares a queue with what is enqueued before it,"
                             : "");
  }

  void report(const std::vector<uint32_t>& circle) {
    findings_.add(DiagnosticKind::program_deadlock, circle.front(), [&] {
      Diagnostic d;
      d.message =
          fmt::format("deadlock of {}: ", counted(static_cast<int64_t>(circle.size()), "stream"));
      for (size_t i = 0; i < circle.size() && i < kMostNamed; ++i) {
        const Blocker why = blocker(circle[i]);
        if (why.wait && !d.where) d.where = why.wait;
        if (why.wait && d.where != why.wait) d.also.push_back(*why.wait);
        d.message += standing(circle[i], why) + " and needs ";
      }
      const bool is_circle = blocker(circle.back()).stream != kNobody;
      const Stream& back = streams_[circle.front()];
      d.message += !is_circle ? "what no program tells"
                              : fmt::format("what rank {} stream {} has behind that", back.rank,
                                            back.number);
      d.hint = is_circle ? "what is needed should stand before the step that waits, or on another "
                           "stream"
                         : "a block or step should make the notify";
      return d;
    });
  }

  const Plan& plan_;
  const InstrIndex& index_;
  const Counters& counters_;
  const std::vector<cuda::RankProgram>& programs_;
  const ProgramPlaces& places_;
  Findings& findings_;
  std::vector<int64_t> told_;                            // by counter
  std::vector<Waiting> waiting_;                         // by counter
  std::vector<Queue> queues_;                            // by rank
  std::vector<Stream> streams_;                          // of all ranks
  std::vector<uint32_t> first_stream_;                   // by rank
  std::vector<std::vector<bool>> recorded_;              // by rank and event
  std::vector<std::vector<uint32_t>> record_stream_;     // the same: its stream
  std::map<std::pair<int32_t, int>, Meeting> meetings_;  // by collective and the first rank
  std::vector<Agent> ready_;
};

}  // namespace

void check_program_run(const Plan& plan, const InstrIndex& index, const Counters& counters,
                       const std::vector<cuda::RankProgram>& programs, const ProgramPlaces& places,
                       Findings& findings, size_t queues) {
  Streams(plan, index, counters, programs, places, findings, queues).run();
}

}  // namespace stretto::checker
