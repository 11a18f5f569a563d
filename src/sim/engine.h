// Runs every lane of a plan in order through simulated time. engine.cpp has the lanes themselves,
// engine_signals their waits and notifies, engine_gemms, engine_moves and engine_joins what their
// tasks do.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/costs.h"
#include "sim/event_queue.h"
#include "sim/gemm_clock.h"
#include "sim/history.h"
#include "sim/ports.h"
#include "sim/trailing_copies.h"
#include "stretto/machine.h"
#include "stretto/plan.h"
#include "stretto/simulate.h"

namespace stretto::sim {

struct EngineOptions {
  bool gemm_takes_time = true;  // false: what remains is communication alone
  bool record = true;           // spans
};

// Of all ranks. Throws UsageError where they are more than can be simulated.
size_t count_counters(const Plan& plan);

class Engine {
 public:
  Engine(const Plan& plan, const Costs& costs, EngineOptions options);

  // Throws UsageError when lanes are stuck for ever.
  void run();

  double total_us() const { return total_us_; }
  uint32_t last_node() const { return last_node_; }
  const History& history() const { return history_; }
  std::vector<LaneUse> lane_uses() const;
  double gemm_busy_us() const { return gemm_busy_us_; }
  std::vector<Span> take_spans() { return std::move(spans_); }
  std::vector<LinkUse> links() const { return ports_.uses(); }

 private:
  enum class Stage : uint8_t {
    ready,     // goes on at once
    task,      // a task runs
    waiting,   // for a counter
    holding,   // a tile is done, but the store of the tile before still occupies the block
    draining,  // a boundary or the end of the lane, but a store is still under way
    joining,   // in a boundary or collective that others have not reached
    done
  };

  // Data under way for a lane: of its copy or reduce, or the store of its gemm's remote writes.
  struct Transfer {
    Traffic traffic;
    double pieces = 1;  // that it is cut into, so that ports serve transfers in turn
    double left = 1;
    double row_fill = 1;          // of a reduce: see Costs
    double parts_us = 0;          // of a store to several ranks
    double piece_end = 0;         // of the piece under way, as far as known
    int32_t port_rank = kNoRank;  // whose port set piece_end
    uint32_t pos = 0;             // instruction
    uint32_t before = kNoNode;
  };

  struct LaneState {
    uint32_t pos = 0;
    uint32_t released = 0;    // position of the last instruction so far that is no notify
    uint32_t kernels = 0;     // mover kernels that it has come to
    uint32_t node = kNoNode;  // what ended now or last on this lane
    double since = 0;         // begin of the stage
    double busy_us = 0, waiting_us = 0;
    int32_t tile = -1;  // of the last gemm, and how many tiles there were before it
    uint32_t tiles = 0;
    double late = 1;  // how many times as long this tile takes
    // Of a block: bytes by its last task, if that was a copy, and by all its copies so far.
    double sent_per_us = 0, sent = 0, sending_us = 0;
    uint32_t next_waiter = kNoLane;
    Stage stage = Stage::ready;
    bool storing = false;                 // a store is under way
    std::vector<uint32_t> held_notifies;  // positions; they follow the store under way
  };

  struct Join {
    bool tasks_follow = false;
    std::vector<uint32_t> lanes;
  };

  // Transfers: two a lane, its task's and its store's.
  static uint32_t task_transfer(uint32_t lane) { return lane * 2; }
  static uint32_t store_transfer(uint32_t lane) { return lane * 2 + 1; }

  const Instr& instr(uint32_t lane) const { return plan_.lanes[lane].instrs[lanes_[lane].pos]; }
  int rank_of(uint32_t lane) const { return plan_.lanes[lane].rank; }
  // Of the collective that the lane has come to: who joins it there, and its id and their first.
  Plan::Joined joined_by(uint32_t lane) const {
    return plan_.joined_by(instr(lane), rank_of(lane));
  }
  using Meeting = std::pair<int32_t, int>;
  Meeting meeting_of(uint32_t lane) const { return {instr(lane).id, joined_by(lane).first}; }
  InstrRef here(uint32_t lane) const { return {lane, lanes_[lane].pos}; }
  uint32_t signal_id(int rank, SignalRef signal) const {
    return static_cast<uint32_t>(rank) * signals_per_rank_ + signal_base_[signal.array] +
           static_cast<uint32_t>(signal.index);
  }

  void start_lanes();
  void handle(const Event& event);
  void advance(uint32_t lane);
  bool step(uint32_t lane);  // false: the lane is not ready to go on
  void finish_task(uint32_t lane, int32_t port_rank = kNoRank);
  void end_lane(uint32_t lane);
  [[noreturn]] void report_stuck() const;

  bool step_wait(uint32_t lane);
  bool step_notify(uint32_t lane);
  void send_notify(uint32_t lane, uint32_t pos, uint32_t before, double delay_us = 0);
  void note_sent(uint32_t lane, double bytes, double took_us);
  double trailing_us(uint32_t lane) const;
  double leaving_us(uint32_t lane) const;
  void deliver_notify(uint32_t node);
  void start_gemm(uint32_t lane);
  double slowdown_when_late(uint32_t lane);
  void predict_gemm(int rank);
  void gemm_event(const Event& event);
  void end_gemm(uint32_t lane);
  bool ends_tile(uint32_t lane) const { return costs_.ends_tile(instr(lane)); }
  void store_tile(uint32_t lane);
  void start_mover(uint32_t lane);
  void start_store(uint32_t lane);
  void end_store(uint32_t lane);
  bool ends_gemm_kernel(uint32_t lane) const;
  void join_boundary(uint32_t lane);
  void join_movers(uint32_t lane);
  bool let_movers_go();
  void release(uint32_t lane, double end, const Join& join);
  void join_collective(uint32_t lane);
  void collective_moves(uint32_t rank0_lane);
  void collective_ends(uint32_t rank0_lane);

  void cut_into_pieces(Transfer& transfer) const;
  double own_pace_us(uint32_t id);  // time that a piece takes its mover, ports aside
  void piece_event(uint32_t id);
  void arrival_event(uint32_t id);
  void moved_event(uint32_t id);
  double disturbance(uint32_t id) const;
  void serve(uint32_t port, double bytes, double slowdown, Ports::Service& service);
  void port_idle_event(uint32_t port);
  void update_speed(int rank);

  const Plan& plan_;
  const Costs& costs_;
  const Machine& machine_;
  const EngineOptions options_;
  const TrailingCopies trailing_copies_;
  EventQueue events_;
  Ports ports_;
  History history_;
  double now_ = 0;

  std::vector<LaneState> lanes_;
  std::vector<Transfer> transfers_;
  std::vector<uint32_t> signal_base_;  // by array, of one rank's counters
  uint32_t signals_per_rank_ = 0;
  std::vector<int64_t> counters_;
  std::vector<uint32_t> waiters_;  // by signal: first waiting lane, then next_waiter

  struct RankState {
    GemmClock gemms;
    std::vector<double> wave_begins;    // when its first tile did
    uint32_t prediction = 0;            // generation of the gemm event that counts
    double predicted = -1;              // its time; negative: none
    int pushing = 0, using_memory = 0;  // block lanes in tasks that push, that use own memory
    double copies_free_at = 0;          // copy engines
    uint32_t compute_lanes = 0;
    bool nccl_running = false, nccl_moving = false;
    std::map<int32_t, Join> boundaries;
    size_t passed = 0;                       // of these
    std::map<uint32_t, Join> mover_kernels;  // by number
  };
  std::vector<RankState> ranks_;
  std::map<Meeting, Join> collectives_;
  std::vector<uint32_t> last_compute_task_;  // by lane: position of its last task

  std::vector<Span> spans_;
  double gemm_busy_us_ = 0;
  double total_us_ = 0;
  uint32_t last_node_ = kNoNode;
};

}  // namespace stretto::sim
