// Tuning files: what is written is read again; whatever else is refused in words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/file.h"
#include "stretto/error.h"
#include "stretto/tune.h"

namespace stretto {
namespace {

using testing::HasSubstr;

TunedOperator tuned_of(const std::string& op, const std::string& machine, double time_us) {
  TunedOperator tuned;
  tuned.op = parse_segment(op);
  tuned.machine = machine;
  tuned.gpu = "NVIDIA H200";
  tuned.library_us = 958.25;
  tuned.measured = {{"sequential", 950, 940, 960, 980.5, 900}, {"tiles", time_us, 1, 2000, {}, {}}};
  return tuned;
}

constexpr const char* kOp = "gemm-rs m=4096 n=8192 k=7168 ranks=2 dtype=bf16";

std::string error_of(const std::string& text) {
  try {
    parse_tuning(text, "mine.json");
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

std::string file_with(const std::string& op, const std::string& measured) {
  return R"({"stretto_tuning": 1, "operators": [{"operator": ")" + op +
         R"(", "machine": "h200x8", "library_us": 5, "measured": [)" + measured + "]}]}";
}

// Operators of several products beside those of one.
TEST(TuningFile, OperatorsOfSeveralProductsAreKeptAndChosenNearby) {
  const auto graph = [](int64_t m) {
    return make_operator("mlp", {{"m", m}, {"h", 512}, {"f", 1376}}, 2);
  };
  const Machine machine = default_machine(2);
  Tuning tuning;
  tuning.add(tuned_of(kOp, machine.name, 700));
  TunedGraph tuned;
  tuned.op = graph(2048);
  tuned.machine = machine.name;
  tuned.library_us = 300;
  tuned.measured = {{"tiles", 210, 200, 220, {}, {}},
                    {"up:slices/down:tiles", 200, 190, 210, {}, {}}};
  tuning.add(tuned);
  tuned.library_us = 600;  // replaces what is known
  tuning.add(tuned);
  const std::string text = print_tuning(tuning);
  const Tuning again = parse_tuning(text);
  EXPECT_EQ(print_tuning(again), text);
  ASSERT_EQ(again.graphs().size(), 1u);
  EXPECT_EQ(again.operators().size(), 1u);
  EXPECT_EQ(again.graphs()[0].measured.front().schedule, "up:slices/down:tiles");
  EXPECT_EQ(again.graphs()[0].library_us, 600);

  const AutoSchedules same = auto_schedules(graph(2048), machine, again);
  EXPECT_EQ(same.schedule, parse_schedules("up:slices/down:tiles", graph(2048), machine));
  EXPECT_THAT(same.reason, HasSubstr("measured on it: 200.0 us, 3.00x"));
  const AutoSchedules near = auto_schedules(graph(4096), machine, again);
  EXPECT_EQ(near.schedule, parse_schedules("up:slices/down:tiles", graph(4096), machine));
  EXPECT_THAT(near.reason, HasSubstr("measured on mlp m=2048"));
  EXPECT_THAT(auto_schedules(graph(300), machine, again).reason,
              testing::Not(HasSubstr("measured on mlp")));
}

Operator own_mlp(const char* activation, int64_t m) {
  const std::string text =
      "graph mlp m h f\ninput x [m, h] rows\ninput wu [f, h] rows\ninput wd [h, f] cols\nu = "
      "gemm x wu\na = " +
      std::string(activation) + " u\ny = gemm a wd\noutput y rows\n";
  return make_graph(parse_graph(text), {{"m", m}, {"h", 512}, {"f", 1376}}, 2, DType::bf16);
}

// A graph that nobody ships stands there with its text: a name alone says nothing.
TEST(TuningFile, CallersOwnGraphsAreKeptWithTheirText) {
  const Machine machine = default_machine(2);
  Tuning tuning;
  TunedGraph tuned;
  tuned.op = own_mlp("silu", 2048);
  tuned.machine = machine.name;
  tuned.library_us = 300;
  tuned.measured = {{"a:slices/y:tiles", 200, 190, 210, {}, {}}};
  tuning.add(tuned);
  const std::string text = print_tuning(tuning);
  const Tuning again = parse_tuning(text);
  EXPECT_EQ(print_tuning(again), text);
  ASSERT_EQ(again.graphs().size(), 1u);
  EXPECT_TRUE(again.graphs()[0].op == own_mlp("silu", 2048));
  EXPECT_THAT(auto_schedules(own_mlp("silu", 2048), machine, again).reason,
              HasSubstr("measured on it: 200.0 us"));
  EXPECT_THAT(auto_schedules(own_mlp("silu", 3000), machine, again).reason,
              HasSubstr("measured on mlp m=2048"));
  EXPECT_THAT(auto_schedules(own_mlp("gelu", 2048), machine, again).reason,
              testing::Not(HasSubstr("measured on it")));

  std::string other = text;
  other.replace(other.find("silu"), 4, "salu");
  EXPECT_THAT(error_of(other), HasSubstr("operators[0].graph is wrong: graph:6:5: unknown kind"));
  // Which would be read again as a product of one weight.
  EXPECT_THAT(error_of(R"({"stretto_tuning": 1, "operators": [{"operator": "gate m=64 h=64 f=64 )"
                       R"(ranks=2 dtype=bf16", "graph": "graph gate m h f\ninput x [m, h] rows\n)"
                       R"(input g [f, h] rows\ninput u [f, h] rows\na = gemm x g\n)"
                       R"(b = gemm x u\ny = swiglu a b\noutput y cols\n", "machine": "h200x8", )"
                       R"("measured": []}]})"),
              HasSubstr("operators[0].graph is one product of two weights"));
  // Code that is compiled and executed stands in no file of times.
  EXPECT_THAT(error_of(R"({"stretto_tuning": 1, "operators": [{"operator": "own m=64 h=64 f=64 )"
                       R"(ranks=2 dtype=bf16", "graph": "graph own m h f\nkernel k all-reduce )"
                       R"(\"k.h\"\ninput x [m, f] cols\ninput w [h, f] cols\ny = gemm x w\n)"
                       R"(output y whole\n", "machine": "h200x8", "measured": [{"schedule": )"
                       R"("sequential,kernel=k", "time_us": 5, "low_us": 5, "high_us": 5}]}]})"),
              HasSubstr("measured[0].schedule is wrong: a file of times takes no kernel"));
  other = text;
  other.replace(other.find("mlp m=2048"), 3, "mlq");
  EXPECT_THAT(error_of(other), HasSubstr("unknown operator 'mlq'"));
}

TEST(TuningFile, PrintAndParseAreInverse) {
  Tuning tuning;
  tuning.add(tuned_of(kOp, "h200x8", 700));
  TunedOperator steady = tuned_of("ag-gemm m=512 n=512 k=512 ranks=4 dtype=fp16", "h100x8", 30);
  steady.turn_ms = 100;
  tuning.add(steady);
  const std::string text = print_tuning(tuning);
  const Tuning again = parse_tuning(text);
  EXPECT_EQ(print_tuning(again), text);
  const TunedOperator& first = again.operators().front();
  EXPECT_EQ(to_string(first.op), kOp);
  EXPECT_EQ(first.measured.front().schedule, "tiles");  // the fastest first
  EXPECT_FALSE(first.measured.front().cold_us);
  EXPECT_EQ(first.measured.back().cold_us, 980.5);
  EXPECT_EQ(first.measured.back().predicted_us, 900);
  EXPECT_EQ(first.turn_ms, 0);
  EXPECT_EQ(again.operators().back().turn_ms, 100);
}

TEST(TuningFile, TheSameOperatorIsReplacedOnTheSameMachineOnly) {
  Tuning tuning;
  tuning.add(tuned_of(kOp, "h200x8", 700));
  tuning.add(tuned_of(kOp, "h100x8", 800));
  tuning.add(tuned_of(kOp, "h200x8", 600));
  ASSERT_EQ(tuning.operators().size(), 2u);
  EXPECT_EQ(tuning.operators()[0].measured.front().time_us, 600);
  EXPECT_EQ(tuning.operators()[1].measured.front().time_us, 800);
}

TEST(TuningFile, ErrorsNameFileAndPlace) {
  EXPECT_THAT(error_of("{"), HasSubstr("tuning file 'mine.json' is not JSON at line 1, column 2"));
  EXPECT_THAT(error_of("[]"), HasSubstr("must be an object"));
  EXPECT_THAT(error_of(R"({"stretto_tuning": 2, "operators": []})"),
              HasSubstr("stretto_tuning must be 1"));
  EXPECT_THAT(error_of(R"({"stretto_tuning": 1, "operator": []})"),
              HasSubstr("unknown key 'operator' (did you mean 'operators'?)"));
  EXPECT_THAT(error_of(file_with("gemm-rs m=0 n=8 k=8 ranks=2 dtype=bf16", "")),
              HasSubstr("operators[0].operator is wrong"));
  EXPECT_EQ(error_of(R"({"stretto_tuning": 1, "operators": [{"machine": "h200x8"}]})"),
            "tuning file 'mine.json': operators[0].operator is missing");
  EXPECT_THAT(error_of(file_with(kOp, "")), HasSubstr("operators[0].measured must not be empty"));
  EXPECT_THAT(error_of(file_with(kOp, R"({"schedule": "tils", "time_us": 1})")),
              HasSubstr("operators[0].measured[0].schedule is wrong: "));
  EXPECT_THAT(error_of(file_with(kOp, R"({"schedule": "tiles", "time_us": "fast"})")),
              HasSubstr("measured[0].time_us must be a number of microseconds from 0.01"));
  EXPECT_THAT(
      error_of(file_with(kOp, R"({"schedule": "tiles", "time_us": 5, "low_us": 6, "high_us": 7})")),
      HasSubstr("low_us <= time_us <= high_us"));
  for (const char* const turn : {"-1", "10001", "\"long\"", "null"}) {
    EXPECT_EQ(error_of(std::string(R"({"stretto_tuning": 1, "operators": [{"operator": ")") + kOp +
                       R"(", "machine": "h200x8", "library_us": 5, "turn_ms": )" + turn + "}]}"),
              "tuning file 'mine.json': operators[0].turn_ms must be a number of milliseconds from "
              "0 to 10000");
  }
  EXPECT_THAT(error_of(std::string(200, '[')), HasSubstr("nested too deeply"));
  EXPECT_THAT(error_of(std::string((size_t{16} << 20) + 1, ' ')), HasSubstr("at most"));
}

class TuningOnDisk : public testing::Test {
 protected:
  TuningOnDisk()
      : folder_(std::filesystem::temp_directory_path() /
                ("stretto_tuning_" + std::to_string(getpid()))) {}
  ~TuningOnDisk() override { std::filesystem::remove_all(folder_); }
  std::string path() const { return (folder_ / "below" / "tuning.json").string(); }
  std::filesystem::path folder_;
};

TEST_F(TuningOnDisk, AddingBeginsTheFileAndKeepsWhatItHolds) {
  EXPECT_TRUE(read_tuning(path()).operators().empty());
  Tuning one, two;
  one.add(tuned_of(kOp, "h200x8", 700));
  two.add(tuned_of(kOp, "h100x8", 800));
  add_to_tuning(path(), one);
  add_to_tuning(path(), two);
  EXPECT_EQ(read_tuning(path()).operators().size(), 2u);
}

TEST_F(TuningOnDisk, AFileThatCannotBeReadIsNotOverwritten) {
  std::filesystem::create_directories(folder_ / "below");
  write_file(path(), "not a tuning file");
  Tuning one;
  one.add(tuned_of(kOp, "h200x8", 700));
  EXPECT_THROW(add_to_tuning(path(), one), UsageError);
  EXPECT_EQ(read_file(path(), 100), "not a tuning file");
}

TEST_F(TuningOnDisk, WhatCouldNotBeReadAgainIsNotWritten) {
  Tuning good, bad;
  good.add(tuned_of(kOp, "h200x8", 700));
  add_to_tuning(path(), good);
  TunedOperator wordy = tuned_of(kOp, "h100x8", 800);
  wordy.commit = std::string(201, 'c');
  bad.add(wordy);
  EXPECT_THROW(add_to_tuning(path(), bad), UsageError);
  EXPECT_EQ(read_tuning(path()).operators().size(), 1u);
}

TEST_F(TuningOnDisk, TextsThatAreNotUtf8AreKeptAsFarAsTheyAre) {
  Tuning tuning;
  tuning.add(tuned_of(kOp, "h200x8", 700));
  TunedOperator odd = tuned_of(kOp, "h100x8", 800);
  odd.gpu = "\xff GPU";
  tuning.add(odd);
  add_to_tuning(path(), tuning);
  EXPECT_THAT(read_tuning(path()).operators().back().gpu, HasSubstr(" GPU"));
}

// Each reads, adds and writes; without a lock one overwrites what the other has just added.
TEST_F(TuningOnDisk, ProcessesThatAddAtTheSameTimeLoseNothing) {
  constexpr int kProcesses = 3, kRows = 15;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    try {
      for (int i = 0; i < kRows; ++i) {
        Tuning one;
        one.add(tuned_of("gemm-rs m=" + std::to_string(64 * (p * kRows + i + 1)) +
                             " n=8192 k=7168 ranks=2 dtype=bf16",
                         "h200x8", 700));
        add_to_tuning(path(), one);
      }
    } catch (const std::exception&) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  for (const pid_t child : children) {
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(read_tuning(path()).operators().size(), size_t{kProcesses * kRows});
}

TEST_F(TuningOnDisk, IsLockedBesideItself) {
  check_tuning_file(path());
  std::filesystem::create_directories(path() + "x.lock");
  EXPECT_THROW(check_tuning_file(path() + "x"), SystemError);
}

TEST_F(TuningOnDisk, IsCheckedBeforeTheWork) {
  EXPECT_NO_THROW(check_tuning_file(path()));
  EXPECT_FALSE(std::filesystem::exists(path()));
  std::filesystem::create_directories(path());
  EXPECT_THROW(check_tuning_file(path()), SystemError);
}

TEST_F(TuningOnDisk, WhatIsThereButCannotBeReadIsNotTakenForNothing) {
  write_file(folder_.string(), "a file where a folder should be");
  EXPECT_THROW(read_tuning(path()), SystemError);
}

TEST(ShippedTuning, CanBeRead) { EXPECT_NO_THROW(load_tuning()); }

}  // namespace
}  // namespace stretto
