// Tuning: which schedule is the fastest for an operator, by what was measured on a machine.
//
// A tuning file holds every measurement, so that the choice can be made again and the simulation's
// error is known. docs/tuning.md describes it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/machine.h"
#include "stretto/operator.h"
#include "stretto/schedule.h"
#include "stretto/segment.h"

namespace stretto {

struct Measured {
  std::string schedule;  // its text
  // Microseconds a run, back to back: the median and the range.
  double time_us = 0, low_us = 0, high_us = 0;
  std::optional<double> cold_us;       // a single run from a cold L2 cache
  std::optional<double> predicted_us;  // by the simulation
};

// What was measured of one operator on one machine with one kind of GPU.
struct TunedSchedules {
  std::string machine;       // its name; plans were lowered for it
  std::string gpu;           // as the driver calls it; empty: nobody said
  std::string commit, date;  // of the measurement; may be empty
  // The shortest turn of those who may be the fastest, in ms; 0: two graphs of ten runs. Only long
  // ones are of a GPU that has slowed down to keep to its power.
  double turn_ms = 0;
  double library_us = 0;           // cuBLAS, then NCCL, in the same session; 0: not measured
  std::vector<Measured> measured;  // the fastest first, never empty
};
// What is known of an operator that is one product; others go by the name they are shipped by.
struct TunedOperator : TunedSchedules {
  Segment op;
};
struct TunedGraph : TunedSchedules {
  Operator op;
};

class Tuning {
 public:
  const std::vector<TunedOperator>& operators() const { return operators_; }
  const std::vector<TunedGraph>& graphs() const { return graphs_; }
  // Replaces what is known of the same operator on the same machine and GPU.
  void add(TunedOperator tuned);
  void add(TunedGraph tuned);
  // Whatever the operator is.
  void add(const Operator& op, TunedSchedules tuned);
  void add_all(const Tuning& other);

 private:
  std::vector<TunedOperator> operators_;
  std::vector<TunedGraph> graphs_;
};

// Reads a tuning file from anywhere: throws UsageError naming the file, the place and what would be
// right. Print and parse are each other's inverse.
Tuning parse_tuning(std::string_view text, std::string_view file_name = "tuning");
std::string print_tuning(const Tuning& tuning);

// The user's file: STRETTO_TUNING_FILE, else one in the home folder; empty when there is no home.
std::string default_tuning_file();
// The file's; nothing when there is no such file. Throws as parse_tuning(), SystemError.
Tuning read_tuning(const std::string& path);
// Adds to what the file holds, or begins it and its folders. Readers never see half of it. Throws
// as read_tuning(); UsageError for what parse_tuning() would refuse, and the file stays as it was.
void add_to_tuning(const std::string& path, const Tuning& tuning);
// Throws what add_to_tuning() would because of the file itself: before the work that is to be kept.
void check_tuning_file(const std::string& path);
Tuning shipped_tuning();
// What is shipped, then the user's file over it. Throws as read_tuning(), and UsageError where
// STRETTO_TUNING_FILE names a file that is not there: only `stretto tune` begins one.
Tuning load_tuning();

// What a choice goes by, and how far it can be off: of nine in ten choices by such evidence the
// best took at most the share `within` less time (docs/tuning.md says where that is from).
enum class Evidence : uint8_t { measured, near, predicted };
struct Sureness {
  Evidence by = Evidence::predicted;
  double within = 1;

  // Whether a measurement is worth its time.
  bool is_sure() const { return within <= 0.03; }
  bool operator==(const Sureness&) const = default;
};
// "sure within 2 %"
std::string to_string(const Sureness& sureness);

struct AutoSchedule {
  Schedule schedule;
  std::string reason;  // for people, one line, which says how sure it is
  Sureness sureness = {};
};

// Who says how many rows a run of a bucket has. A library cannot look into GPU memory: it serves
// buckets of few rows only, all of which it multiplies.
enum class RowsFrom : uint8_t { host, gpu_memory };

// The schedule that was the fastest on this operator and GPU. Where it was not measured: of the
// usual ones and those that were fast on the nearest operators of the same kind and element size on
// this machine, inside a node with any number of ranks, what the simulation finds fastest with its
// errors on these taken off. Another algorithm of cuBLAS's than its first is taken on the very
// operator that it was measured on only. Throws UsageError when no preset can serve the operator.
// `rows`: what runs of the plan may have; for a bucket served_schedule() chooses.
AutoSchedule auto_schedule(const Segment& op, const Machine& machine, const Tuning& tuning,
                           RowCount rows = RowCount::fixed);
// What asks for it in the place of a schedule's text: for parse_schedule()'s list.
inline constexpr std::string_view kAutoWords[] = {"auto"};

// For a bucket that a call waits for, so nothing is simulated: the fastest measured on it; else
// what was fastest on the nearest operators, those that auto_schedule() hears, within a factor of
// four in all; where nothing is so near, cuBLAS and low-latency collectives for few rows, fused
// tiles for more. Takes under a tenth of a millisecond. Throws UsageError when nothing serves it.
AutoSchedule served_schedule(const Segment& op, const Machine& machine, const Tuning& tuning,
                             RowsFrom from = RowsFrom::host);

// An operator of several products gets the fastest measured on it, or on the same operator
// and number of ranks where no size is apart by more than a factor of two, the nearest first. Else
// for each of them what it would have alone, or `tiles` for all where these do not go together in
// one plan; the reason names each product. With rows=bucket as served_schedule() chooses, so
// nothing is simulated. Where rows choose experts, the preset that the simulation finds fastest.
struct AutoSchedules {
  OperatorSchedule schedule;
  std::string reason;
  Sureness sureness = {};  // of the least sure; within 1 where nobody knows
};
AutoSchedules auto_schedules(const Operator& op, const Machine& machine, const Tuning& tuning,
                             RowCount rows = RowCount::fixed, RowsFrom from = RowsFrom::host);

// What either takes first: the fastest measured on this operator and GPU; nothing where none
// serves.
std::optional<AutoSchedule> measured_schedule(const Segment& op, const Machine& machine,
                                              const Tuning& tuning, RowCount rows = RowCount::fixed,
                                              RowsFrom from = RowsFrom::host);
// By what was measured elsewhere only, and a simulation. Takes a tenth of a second and more of one
// core, for large operators seconds; it uses all.
AutoSchedule simulated_schedule(const Segment& op, const Machine& machine, const Tuning& tuning,
                                RowCount rows = RowCount::fixed, RowsFrom from = RowsFrom::host);

// A schedule that a sweep should measure.
struct Candidate {
  Schedule schedule;
  double predicted_us = 0;
};

// The presets, `sequential` first, without those that the simulation finds hopeless; what has been
// fastest elsewhere; then the `more` others of the space that the simulation finds fastest. Each
// can serve the operator; throws UsageError when none can. Takes seconds: it lowers and simulates
// all of them.
std::vector<Candidate> sweep_candidates(const Segment& op, const Machine& machine, size_t more);

// Operators that are not one product get the presets for all products, whole and in two
// parts, what `auto` would take, and those of a walk that gives one product after the other what
// the simulation finds fastest; then the `more` next.
struct GraphCandidate {
  OperatorSchedule schedule;
  double predicted_us = 0;
};
std::vector<GraphCandidate> graph_candidates(const Operator& op, const Machine& machine,
                                             size_t more);
// Any operator gets one of these two.
std::vector<GraphCandidate> candidates_to_measure(const Operator& op, const Machine& machine,
                                                  size_t more);

// What a sweep should measure after these: the fastest of `measured` that cuBLAS multiplies for,
// with every other algorithm that cuBLAS may propose (fewer, maybe: then they are refused when they
// are to run). Nothing where it was too slow for that to make it the fastest.
std::vector<Schedule> algorithms_to_measure(const Segment& op, const Machine& machine,
                                            const std::vector<Measured>& measured);

// Who of `measured` may be the fastest, by the ranges of their times, and what a sweep should
// measure last, by itself: the fastest eight of them, in their order. None where one stands alone.
std::vector<Measured> finalists(std::vector<Measured> measured);
// In how many rounds all take turns, and how long a turn is at least; 0: two launches of a graph.
struct Turns {
  int rounds = 0;
  double turn_us = 0;
};
// Finals after a sweep with these turns have more rounds; or, where the finalists' times change
// from round to round, turns longer than a GPU takes to slow down. What a GPU's power limits
// changes by what ran before it.
Turns turns_of_finals(const std::vector<Measured>& finalists, Turns sweep);
// `measured` with the finalists' last times. The others' change as those did in the mean, so that
// all stand for the same GPUs, as warm as with the finalists alone; or by more, so that none of
// them becomes the fastest without having been in the finals.
std::vector<Measured> with_finals(std::vector<Measured> measured,
                                  const std::vector<Measured>& finals);

}  // namespace stretto
