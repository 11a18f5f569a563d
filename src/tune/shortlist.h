// What is worth a measurement where `auto` is not sure.
#pragma once

#include <vector>

#include "stretto/tune.h"
#include "tune/predict.h"
#include "tune/sureness.h"

namespace stretto {

// What `auto` takes first; then, with fixed rows, the library; then the best of those that cuBLAS
// multiplies for, since a choice must not lose to these; then the best with low-latency
// collectives, where it is expected to be nearly as fast; then the others as they are expected. At
// most `most`, and each can serve so many rows. With fixed rows it simulates what auto_schedule()
// does, with rows=bucket nothing.
std::vector<Schedule> shortlist(const Segment& op, const Machine& machine, const Tuning& tuning,
                                RowCount rows, size_t most, Predictions& predictions);

// The same of all that is expected, the fastest first.
std::vector<Schedule> shortlist_of(const std::vector<Expectation>& all, const Segment& op,
                                   const Machine& machine, RowCount rows, size_t most);

// Of a bucket: all that is known to serve it, what is expected to be the fastest first. Where no
// time is expected of a schedule, it is as slow as can be.
std::vector<Expectation> served_shortlist(const Segment& op, const Machine& machine,
                                          const Tuning& tuning);

}  // namespace stretto
