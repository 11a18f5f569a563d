#include "tune/near_measurements.h"

#include <algorithm>
#include <cmath>

#include "schedule/coordinates.h"
#include "schedule/few_rows.h"
#include "tune/nearness.h"
#include "tune/phased_gathers.h"
#include "tune/refit.h"
#include "tune/usual_schedules.h"

namespace stretto {
namespace {

// Chosen by tests/tune/leave_one_out_test.cpp's table. Waves of tiles that are full on one shape
// are not on another, so that several shapes say more of a schedule than the nearest alone.
constexpr size_t kSpeaking = 8;
constexpr size_t kProposing = 4;  // whose fast schedules are candidates
constexpr double kTooSlow = 1.2;  // elsewhere what was so much slower may still be the fastest
// An operator at a distance of 1, a factor of 2.7, counts 0.37 times as much as one at none.
constexpr double kReach = 1;
// What is known of a schedule's kind weighs so much beside what is known of the schedule itself,
// and the simulation by itself so much beside the kind. Either may be as far off as its errors are
// in general (docs/simulation.md), and the fastest of many guesses is one that was too good: so the
// less was measured of a schedule the slower it is taken to be.
constexpr double kWeightOfKind = 0.3, kWeightOfNothing = 0.05;
constexpr double kDoubt = 1.1;
// Of fewer than 512 rows the kernel of few rows is simulated better than others
// (tests/sim/few_rows_test.cpp), and what was not measured of it is doubted less: on 4 GPUs nobody
// has measured it.
constexpr double kDoubtOfFewRows = 1.02;
// Of sums outside all sizes that were measured cuBLAS is what it is, but nobody saw how our
// kernels' tiles share caches and power there: a factor of two more is doubted by 7 %. Gathers are
// not: what made wide ones slow, memory's power, is simulated (kPowerOfReads), and a doubt besides
// lost what was fastest, 1441 us for 1500 on 28,672 columns of a rank. Nor is the kernel of few
// rows: memory limits it, wherever its weights are from.
constexpr double kBeyond = 0.1;
// Where evidence of sums is thin, beyond kFar, what cannot lose goes before a small lead: cuBLAS,
// with communication beside it or behind. Our own kernels have to lead by this share for each
// factor of e that the nearest evidence is farther: slices of 36,864 terms took 2055 us where
// cuBLAS beside copy engines takes 1824.
constexpr double kLeadWhereThin = 0.03;
// Of gathers that are not few rows, a lead this small is no lead over cuBLAS beside what copies,
// which is what PyTorch's gather is: power moves what tiles take by more from run to run, and what
// goes in turn hides nothing. 11471 x 14336 x 12288 took 3179 us by tiles, expected 0.4 % ahead,
// where that took 2953; 3365 x 27648 x 5120 took 726 in turn, expected 0.7 % ahead, and 702.
constexpr double kLeadOfGathers = 0.01;
constexpr int64_t kManyRows = 2048;

// The logarithm of measured over simulated of a schedule on an operator.
struct Residual {
  Schedule schedule;  // for the operator asked for, comparable
  double log = 0;
};

struct Witness {
  double weight = 0;
  std::vector<Residual> residuals;
};

struct Mean {
  double sum = 0, weight = 0;
  void add(double value, double its_weight) {
    sum += its_weight * value;
    weight += its_weight;
  }
  double value() const { return sum / weight; }
};

// With cuBLAS and NCCL, also where they were only measured beside the schedules.
std::vector<Measured> all_measured(const TunedOperator& tuned, const Machine& machine) {
  std::vector<Measured> found = tuned.measured;
  const auto library = library_for(tuned.op, machine);
  if (!library || tuned.library_us <= 0) return found;
  const bool is_known = std::any_of(found.begin(), found.end(), [&](const Measured& one) {
    return comparable(parse_schedule(one.schedule, tuned.op, machine)) == comparable(*library);
  });
  if (!is_known) found.push_back({to_string(*library), tuned.library_us, 0, 0, {}, {}});
  return found;
}

Witness witness(const TunedOperator& tuned, const Segment& op, const Machine& machine,
                RowCount rows, RowsFrom from, Predictions& predictions) {
  Witness found;
  found.weight = std::exp(-reach(tuned, op, machine) / kReach);
  std::vector<Schedule> there;
  std::vector<double> measured_us;
  for (const Measured& measured : all_measured(tuned, machine)) {
    const auto schedule = as_measured(tuned, measured, op, machine, rows, from);
    const Schedule own = parse_schedule(measured.schedule, tuned.op, machine);
    if (!schedule || !legal(tuned.op, own, machine).empty()) continue;
    found.residuals.push_back({comparable(*schedule)});
    there.push_back(own);
    measured_us.push_back(measured.time_us);
  }
  const std::vector<double> predicted = predictions.us(tuned.op, there);
  for (size_t i = 0; i < there.size(); ++i) {
    found.residuals[i].log = std::log(measured_us[i] / predicted[i]);
  }
  return found;
}

// How far the operator's sizes lie outside those that were measured, as factors.
double beyond(const Segment& op, const std::vector<const TunedOperator*>& measured) {
  const auto outside = [&](const auto& size_of) {
    double above = HUGE_VAL, below = HUGE_VAL;
    for (const TunedOperator* one : measured) {
      const double ratio =
          std::log(static_cast<double>(size_of(op)) / static_cast<double>(size_of(one->op)));
      above = std::min(above, std::max(0.0, ratio));
      below = std::min(below, std::max(0.0, -ratio));
    }
    return std::max(above, below);
  };
  return outside([](const Segment& one) { return one.m; }) +
         outside([](const Segment& one) { return one.local_n(); }) +
         outside([](const Segment& one) { return one.local_k(); });
}

bool is_beside_copies(const Schedule& schedule) {
  return schedule.gemm == GemmBy::library && schedule.granularity != Granularity::whole;
}

double doubt_of(const Schedule& schedule, const Segment& op) {
  const bool is_known = schedule.gemm == GemmBy::few_rows && op.m < kFewRows;
  return is_known ? kDoubtOfFewRows : kDoubt;
}

double correction(const Schedule& schedule, const std::vector<Witness>& witnesses, double doubt) {
  if (witnesses.empty()) return 1;  // all are as doubtful
  Mean own, kind;
  kind.add(std::log(doubt), kWeightOfNothing);
  const Schedule wanted = comparable(schedule);
  for (const Witness& one : witnesses) {
    Mean of_kind;
    for (const Residual& residual : one.residuals) {
      if (residual.schedule == wanted) own.add(residual.log, one.weight);
      if (are_of_a_kind(residual.schedule, wanted)) of_kind.add(residual.log, 1);
    }
    if (of_kind.weight > 0) kind.add(of_kind.value(), one.weight);
  }
  own.add(kind.value() + std::log(doubt), kWeightOfKind);
  return std::exp(own.value());
}

class Candidates {
 public:
  explicit Candidates(std::vector<Schedule> usual) : found_(std::move(usual)) {}

  void add(const Schedule& schedule) {
    const auto is_same = [&](const Schedule& known) {
      return comparable(known) == comparable(schedule);
    };
    if (std::none_of(found_.begin(), found_.end(), is_same)) found_.push_back(schedule);
  }
  std::vector<Schedule> take() { return std::move(found_); }

 private:
  std::vector<Schedule> found_;
};

std::vector<Schedule> candidates(const Segment& op, const Machine& machine, RowCount rows,
                                 RowsFrom from, const std::vector<const TunedOperator*>& speaking,
                                 Predictions& predictions) {
  std::vector<Schedule> usual = usual_schedules(op, machine, rows);
  std::erase_if(usual, [&](const Schedule& one) { return !serves_from(one, op, from); });
  Candidates found(std::move(usual));
  const bool is_refitted = !op.makes_terms() && op.m >= kFewRows;
  for (size_t i = 0; i < std::min(kProposing, speaking.size()); ++i) {
    const TunedOperator& tuned = *speaking[i];
    for (const Measured& measured : tuned.measured) {
      if (measured.time_us > kTooSlow * tuned.measured.front().time_us) break;
      const auto schedule = as_measured(tuned, measured, op, machine, rows, from);
      if (!schedule) continue;
      // On 2 H200s second rounds of weights were 2 to 16 % slower than cuBLAS in their place.
      if (schedule->gemm == GemmBy::few_rows && streams_in_rounds(op, machine.sms)) continue;
      found.add(*schedule);
      if (!is_refitted) continue;
      if (const auto fit = refitted(*schedule, op, machine)) found.add(*fit);
    }
  }
  if (!is_refitted || speaking.empty()) return found.take();
  for (Candidate& one : phased_gathers(op, machine, kMostPhased, predictions)) {
    one.schedule.rows = rows;
    if (legal(op, one.schedule, machine).empty()) found.add(one.schedule);
  }
  return found.take();
}

}  // namespace

ExpectedNearby expected_nearby(const Segment& op, const Tuning& tuning, const Machine& machine,
                               RowCount rows, RowsFrom from, Predictions& predictions) {
  ExpectedNearby found;
  found.operators = speaking_for(op, machine, tuning);
  const double nearest =
      found.operators.empty() ? HUGE_VAL : reach(*found.operators.front(), op, machine);
  found.is_thin = op.makes_terms() && nearest > kFar;
  const bool is_doubted = op.makes_terms() && !found.operators.empty();
  found.doubt = is_doubted ? std::exp(kBeyond * beyond(op, found.operators)) : 1;
  if (found.is_thin) found.doubt *= 1 + kLeadWhereThin * (std::min(nearest, kSilent) - kFar);
  if (found.operators.size() > kSpeaking) found.operators.resize(kSpeaking);
  const std::vector<Schedule> schedules =
      candidates(op, machine, rows, from, found.operators, predictions);
  std::vector<Witness> witnesses;
  for (const TunedOperator* tuned : found.operators) {
    witnesses.push_back(witness(*tuned, op, machine, rows, from, predictions));
  }
  const std::vector<double> predicted = predictions.us(op, schedules);
  const bool has_to_lead = op.gathers() && op.m >= kManyRows;
  for (size_t i = 0; i < schedules.size(); ++i) {
    double factor = correction(schedules[i], witnesses, doubt_of(schedules[i], op));
    if (schedules[i].gemm == GemmBy::tiles) {
      // What was faster than simulated need not be so far from there.
      factor = found.doubt * (found.is_thin ? std::max(1.0, factor) : factor);
    }
    if (has_to_lead && !is_beside_copies(schedules[i])) factor *= 1 + kLeadOfGathers;
    found.schedules.push_back(
        {schedules[i],
         predicted[i] * factor + us_beyond_measured(schedules[i], op, machine, from)});
  }
  return found;
}

}  // namespace stretto
