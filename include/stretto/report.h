// A report on schedules of one operator: one HTML file that needs nothing else, with the timelines
// on one axis, what the checker says, and the plans themselves; or a picture of the timelines.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/check.h"
#include "stretto/machine.h"
#include "stretto/operator.h"
#include "stretto/plan.h"
#include "stretto/simulate.h"

namespace stretto {

// What is said of a schedule beside its plan.
struct ReportedRun {
  std::string name;    // how tables call it
  std::string reason;  // why `auto` took it, or what its name stands for; or empty
};

// A timeline that was measured, and the time of a run without the marks that it takes.
struct MeasuredRun {
  std::optional<Timeline> timeline;
  std::optional<double> us;
  std::string source;  // where they come from
};

// One of the schedules that `auto` has weighed.
struct Weighed {
  std::string product;   // whose schedule it is, where the operator has several
  std::string schedule;  // short
  double us = 0;
  bool is_measured = false;  // or simulated, corrected by what was measured near
  bool is_chosen = false;
};

class HtmlReport {
 public:
  HtmlReport(const Operator& op, const Machine& machine);
  ~HtmlReport();

  // Neither plan nor simulation need live on. `text` is what the plan was read from, with its
  // lines; without one it is printed.
  struct PlanText {
    std::string_view text;
    const PlanLines* lines;
  };
  void add(const ReportedRun& run, const Plan& plan, const Simulation& simulation,
           const CheckReport& check, const MeasuredRun& measured = {},
           std::optional<PlanText> text = {});
  void add_refused(const std::string& name, const std::vector<std::string>& reasons);
  void set_weighed(std::vector<Weighed> weighed);
  void set_sequential_us(double us);  // what speed-ups are over

  // Plans whose texts together would make the file too large are left out, and it says so.
  std::string finish(size_t most_text_bytes = size_t{6} << 20);

 private:
  class Writer;
  std::unique_ptr<Writer> writer_;
};

// A picture (SVG) of the first rank's lanes by kind, of several schedules on one axis; readable on
// light and on dark ground.
class TimelinePicture {
 public:
  explicit TimelinePicture(std::string title);
  ~TimelinePicture();
  void add(const std::string& name, const Plan& plan, const Simulation& simulation);
  std::string finish() const;

 private:
  struct One;
  std::string title_;
  std::vector<One> timelines_;
};

// What to_perfetto() wrote of one timeline, for the plan that it is of: what was measured on GPUs
// comes back from its file. Throws UsageError that begins with `file_name`.
struct TracedRun {
  std::string operator_text, schedule;
  bool is_measured = false;
  Timeline timeline;
};
TracedRun read_perfetto(std::string_view text, std::string_view file_name);
// Throws UsageError where it is of another plan.
void require_same(const TracedRun& run, const Plan& plan, std::string_view file_name);

}  // namespace stretto
