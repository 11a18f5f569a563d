#include "emu/execution.h"

#include <fmt/format.h>

#include <algorithm>

#include "emu/stopwatch.h"

namespace stretto::emu {
namespace {

// A stuck plan names so many lanes; more would not help.
constexpr size_t kMaxStuckLanes = 64;
constexpr int64_t kReports = 200;  // of progress

}  // namespace

Execution::Execution(const Plan& plan, const EmulateOptions& options, const MakeCaller& make_caller)
    : plan_(plan),
      options_(options),
      faults_(plan),
      memory_(plan),
      signals_(plan, options.runs),
      scheduler_(plan, options.seed),
      in_flight_(plan, memory_, signals_, faults_, scheduler_),
      tasks_(plan, memory_, in_flight_, faults_),
      boundaries_(plan, in_flight_, faults_),
      collectives_(plan, memory_, in_flight_, faults_, tasks_, scheduler_.random(), options.seed),
      caller_(make_caller(memory_, faults_)),
      lanes_(plan.lanes.size()),
      ranks_(static_cast<size_t>(plan.ranks())),
      instrs_total_(static_cast<int64_t>(plan.num_instrs()) * options.runs) {}

EmulateResult Execution::run() {
  EmulateResult result;
  double seconds = 0;
  {
    const Stopwatch watch(seconds);
    for (int rank = 0; rank < plan_.ranks(); ++rank) {
      scheduler_.set_runnable(scheduler_.caller_of(rank), true);
    }
    for (Move move = scheduler_.next(); move.kind != Move::Kind::none; move = scheduler_.next()) {
      if (move.kind == Move::Kind::deliver) {
        in_flight_.deliver_some(move.actor);
        unblock_woken();
        end_run_when_done(plan_.lanes[move.actor].rank);
      } else if (move.actor < lanes_.size()) {
        step_lane(move.actor);
        unblock_woken();
        report_progress();
      } else {
        step_caller(static_cast<int>(move.actor - lanes_.size()));
      }
    }
  }
  result.finished = std::all_of(ranks_.begin(), ranks_.end(), [&](const RankState& rank) {
    return !rank.running && rank.run == options_.runs - 1;
  });
  if (!result.finished) report_stuck(result);
  caller_->report(result);
  result.faults = faults_.all();
  result.gemm_flops = tasks_.flops();
  result.bad_ids = tasks_.bad_ids().most_of_a_run();
  result.seconds = seconds - caller_->seconds();
  return result;
}

void Execution::step_caller(int rank) {
  RankState& state = ranks_[static_cast<size_t>(rank)];
  scheduler_.set_runnable(scheduler_.caller_of(rank), false);
  if (state.output_unread) {
    caller_->read_output(rank, state.run);
    state.output_unread = false;
  }
  if (state.run + 1 == options_.runs) return;
  ++state.run;
  state.running = true;
  caller_->write_inputs(rank, state.run);
  for (uint32_t lane = 0; lane < lanes_.size(); ++lane) {
    if (plan_.lanes[lane].rank != rank) continue;
    lanes_[lane] = {};
    if (plan_.lanes[lane].instrs.empty()) continue;
    lanes_[lane].blocked = Blocked::no;
    ++state.lanes_left;
    scheduler_.set_runnable(lane, true);
  }
  end_run_when_done(rank);
}

void Execution::step_lane(uint32_t lane) {
  const Instr& instr = plan_.lanes[lane].instrs[lanes_[lane].pos];
  switch (instr.form()) {
    case OpForm::wait:
      return wait(lane, instr);
    case OpForm::notify:
      in_flight_.notify(where(lane), signals_.counter(instr.signal, instr.rank, where(lane).run),
                        instr.amount);
      return advance(lane);
    case OpForm::boundary:
      return join_boundary(lane);
    case OpForm::task_kind:
      return run_task(lane);
    case OpForm::collective:
      return join_collective(lane);
    case OpForm::deliver:
      if (tasks_.sound(where(lane))) tasks_.check_reads(where(lane));
      return advance(lane);
  }
}

void Execution::wait(uint32_t lane, const Instr& instr) {
  const int rank = plan_.lanes[lane].rank;
  const int run = ranks_[static_cast<size_t>(rank)].run - instr.lag;
  if (run < 0) return advance(lane);
  const size_t counter = signals_.counter(instr.signal, rank, run);
  const int64_t threshold = signals_.base(instr.signal, rank, run) + instr.amount;
  if (signals_.value(counter) >= threshold) return advance(lane);
  signals_.block(lane, counter, threshold);
  block(lane, Blocked::signal);
}

void Execution::run_task(uint32_t lane) {
  LaneState& state = lanes_[lane];
  const Where at = where(lane);
  if (state.rows_done == 0 && !tasks_.sound(at)) return advance(lane);
  const int64_t rows = tasks_.rows(at);
  int64_t end = std::min(rows, state.rows_done + tasks_.max_rows(at));
  if (state.rows_done == 0 && end >= 2 && scheduler_.split_task()) {
    end = 1 + static_cast<int64_t>(scheduler_.random().below(static_cast<uint64_t>(end - 1)));
  }
  tasks_.run(at, state.rows_done, end);
  state.rows_done = end;
  if (end == rows) advance(lane);
}

void Execution::join_boundary(uint32_t lane) {
  const std::vector<uint32_t> lanes = boundaries_.join(where(lane));
  if (lanes.empty()) block(lane, Blocked::boundary);
  for (const uint32_t one : lanes) advance(one);
}

void Execution::join_collective(uint32_t lane) {
  block(lane, Blocked::collective);
  for (const uint32_t one : collectives_.join(where(lane))) advance(one);
}

void Execution::block(uint32_t lane, Blocked why) {
  lanes_[lane].blocked = why;
  scheduler_.set_runnable(lane, false);
}

void Execution::unblock_woken() {
  for (const uint32_t lane : in_flight_.woken()) {
    lanes_[lane].blocked = Blocked::no;
    scheduler_.set_runnable(lane, true);
  }
  in_flight_.woken().clear();
}

void Execution::advance(uint32_t lane) {
  LaneState& state = lanes_[lane];
  ++instrs_done_;
  ++state.pos;
  state.rows_done = 0;
  if (state.pos < plan_.lanes[lane].instrs.size()) {
    state.blocked = Blocked::no;
    scheduler_.set_runnable(lane, true);
    return;
  }
  block(lane, Blocked::done);
  const int rank = plan_.lanes[lane].rank;
  --ranks_[static_cast<size_t>(rank)].lanes_left;
  end_run_when_done(rank);
}

void Execution::end_run_when_done(int rank) {
  RankState& state = ranks_[static_cast<size_t>(rank)];
  if (!state.running || state.lanes_left > 0 || !in_flight_.empty(rank)) return;
  state.running = false;
  state.output_unread = true;
  // The caller may read at once, or only just before it starts the next run.
  if (scheduler_.random().chance(50)) {
    caller_->read_output(rank, state.run);
    state.output_unread = false;
  }
  scheduler_.set_runnable(scheduler_.caller_of(rank), true);
}

void Execution::report_progress() {
  if (!options_.progress || instrs_done_ < next_report_) return;
  next_report_ = instrs_done_ + std::max<int64_t>(1, instrs_total_ / kReports);
  options_.progress(static_cast<double>(instrs_done_) / static_cast<double>(instrs_total_));
}

void Execution::report_stuck(EmulateResult& result) const {
  for (uint32_t lane = 0; lane < lanes_.size() && result.stuck.size() < kMaxStuckLanes; ++lane) {
    const LaneState& state = lanes_[lane];
    if (state.blocked == Blocked::done || state.blocked == Blocked::no) continue;
    const Instr& instr = plan_.lanes[lane].instrs[state.pos];
    const int rank = plan_.lanes[lane].rank;
    const int own_run = where(lane).run;
    StuckLane stuck{
        .lane = describe(plan_.lanes[lane]), .run = own_run, .where = {lane, state.pos}};
    switch (state.blocked) {
      case Blocked::signal: {
        const int run = own_run - instr.lag;
        stuck.signal = fmt::format("{}@{}", describe(plan_, instr.signal), rank);
        stuck.expected = instr.amount;
        stuck.seen = signals_.value(signals_.counter(instr.signal, rank, run)) -
                     signals_.base(instr.signal, rank, run);
        break;
      }
      case Blocked::boundary:
        stuck.signal = fmt::format("boundary {}", instr.id);
        stuck.expected = static_cast<int64_t>(boundaries_.members(rank));
        stuck.seen = static_cast<int64_t>(boundaries_.joined(rank));
        break;
      case Blocked::collective:
        stuck.signal = fmt::format("collective {}", instr.id);
        stuck.expected = plan_.ranks();
        stuck.seen = collectives_.joined(where(lane));
        break;
      case Blocked::no:
      case Blocked::done:
        break;
    }
    result.stuck.push_back(std::move(stuck));
  }
}

}  // namespace stretto::emu
