// The JSON file of a benchmark: what it found, with its own name and what the caller says of the
// commit and the day.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "arguments.h"

namespace stretto::bench {

class ReportFile {
 public:
  // The file is optional: it is --out, --commit and --date of these arguments.
  ReportFile(std::string benchmark, Arguments& arguments);
  ReportFile(const ReportFile&) = delete;
  ReportFile& operator=(const ReportFile&) = delete;

  bool is_wanted() const { return !path_.empty(); }
  // Throws where the file cannot be written: before the work whose result it is.
  void check_writable() const;
  // An object of results, of either kind of JSON, goes behind the three.
  template <typename Json>
  void write(const Json& results) const {
    Json all{{"benchmark", benchmark_}, {"commit", commit_}, {"date", date_}};
    all.update(results);
    write_text(all.dump(1) + "\n");
  }

 private:
  void write_text(const std::string& text) const;

  std::string benchmark_, path_, commit_, date_;
};

}  // namespace stretto::bench
