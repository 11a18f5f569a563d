// A plan that serves, on GPUs: its ranks' memory seen from the host, rows that the host says or
// that stand in memory, and what is wrong with a run's outputs.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "emu/output_check.h"
#include "emu/shared_reference.h"
#include "gpu/graph.h"
#include "gpu_plans.h"
#include "plan_cases.h"

namespace stretto::runtime {

class Server {
 public:
  explicit Server(const PlanCase& c)
      : plan_(plan_here(c.op, c.schedule)),
        fabric_(shared_fabric(c.ranks)),
        runner_(plan_, fabric_, shared_compiler(), {.serves = true}) {
    for (int rank = 0; rank < plan_.ranks(); ++rank) {
      fabric_.device(rank).make_current();
      rows_at_.emplace_back(sizeof(uint64_t));  // what a stream writes
    }
  }
  ~Server() {
    for (int rank = 0; rank < plan_.ranks(); ++rank) {
      fabric_.device(rank).make_current();
      rows_at_[static_cast<size_t>(rank)] = {};
    }
  }

  const Plan& plan() const { return plan_; }
  PlanRunner& runner() { return runner_; }
  cuda::DevicePtr rows_at(int rank) const { return rows_at_[static_cast<size_t>(rank)].address(); }

  // Poison everywhere, then the inputs of the operator with so many rows, and the row count.
  void prepare(int64_t rows, uint64_t seed) {
    op_ = *plan_.op.only_product();
    op_.m = rows;
    data_ = {Fill::integers, seed};
    const auto count = static_cast<int32_t>(rows);
    on_all([&](int rank) {
      runner_.memory().poison(rank, runner_.stream(rank));
      runner_.stream(rank).synchronize();
      for (const auto& [name, input] : {std::pair{"a", 0}, std::pair{"b", 1}}) {
        if (rows == 0) break;
        const auto values = reference_->input(op_, data_, input, rank);
        if (!values->empty()) {
          cuda::copy_to_gpu(runner_.buffer(name, rank), values->data(), values->size());
        }
      }
      cuda::copy_to_gpu(rows_at(rank), &count, sizeof(count));
    });
  }

  // In the order of the rank's stream.
  void write_rows(int rank, int64_t rows) {
    cuda::check(cuda::driver().stream_write_value(runner_.stream(rank).handle(), rows_at(rank),
                                                  static_cast<uint64_t>(rows), 0),
                "write in a stream");
  }

  // A graph a rank, whose rows stand in memory.
  std::vector<std::unique_ptr<cuda::Graph>> capture() {
    std::vector<std::unique_ptr<cuda::Graph>> graphs;
    on_all([&](int rank) {
      const cuda::Stream& stream = runner_.stream(rank);
      graphs.push_back(std::make_unique<cuda::Graph>(stream, [&] {
        enqueue(rank, {0, rows_at(rank)});
      }));
    });
    return graphs;
  }
  void drop(std::vector<std::unique_ptr<cuda::Graph>>& graphs) const {
    on_all([&](int rank) { graphs[static_cast<size_t>(rank)].reset(); });
  }
  // As many runs as a graph has.
  void enqueue(int rank, const RowsOfCall& rows) {
    for (int run = 0; run < runner_.runs_per_graph(); ++run) {
      runner_.enqueue(rank, runner_.stream(rank).handle(), rows);
    }
  }

  template <typename Work>
  void on_all(const Work& work) const {
    for (int rank = 0; rank < plan_.ranks(); ++rank) {
      fabric_.device(rank).make_current();
      work(rank);
    }
  }

  // Waits for the run; what is wrong with its outputs, or nothing.
  std::string wrong() {
    runner_.finish();
    std::string touched;
    std::vector<std::vector<std::byte>> outputs;
    on_all([&](int rank) {
      const uint16_t out = plan_.find_buffer("out").value();
      std::vector<std::byte> all(runner_.memory().num_bytes(out));
      cuda::copy_from_gpu(all.data(), runner_.buffer("out", rank), all.size());
      size_t used = 0;
      if (op_.m > 0) {  // else it is no operator
        const Slice slice = output_slice(op_, rank);
        used = static_cast<size_t>(slice.rows() * slice.cols() * num_bytes(op_.dtype));
      }
      const auto other = std::find_if(all.begin() + static_cast<std::ptrdiff_t>(used), all.end(),
                                      [](std::byte b) { return b != std::byte{0xff}; });
      if (other != all.end()) {
        touched +=
            fmt::format("rank {} wrote byte {} of {} used; ", rank, other - all.begin(), used);
      }
      outputs.push_back(std::move(all));
    });
    if (op_.m == 0) return touched;
    Plan served = plan_;
    served.op = op_;
    emu::OutputCheck check_output(served);
    const auto expected = reference_->expected(op_, data_, emu::roundings_of(plan_), 0, op_.m);
    for (int rank = 0; rank < plan_.ranks(); ++rank) {
      check_output.compare(0, rank, 0, outputs[static_cast<size_t>(rank)].data(),
                           expected->front());
    }
    if (check_output.wrong_elements == 0) return touched;
    return touched +
           fmt::format("{} wrong, {}", check_output.wrong_elements, check_output.first_wrong);
  }

 private:
  Plan plan_;
  fabric::Fabric& fabric_;
  PlanRunner runner_;
  std::vector<cuda::DeviceMemory> rows_at_;
  std::shared_ptr<SharedReference> reference_ = make_shared_reference();
  Segment op_;
  InputData data_;
};

}  // namespace stretto::runtime
