// What operations have measured is kept for other processes, and a file of it is never trusted.
#include "tune/learnt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/file_lock.h"
#include "stretto/machine.h"

namespace stretto {
namespace {

using testing::AnyOf, testing::HasSubstr;

constexpr const char* kGpu = "NVIDIA H200";

TunedOperator learnt_of(int64_t m, double time_us = 100) {
  TunedOperator learnt;
  learnt.op = Segment{kGemmRs, m, 4096, 4096, 2, DType::bf16};
  learnt.machine = "h200x8";
  learnt.date = "2026-11-23";
  learnt.measured = {{"tiles", time_us, time_us, time_us, {}, {}}};
  return learnt;
}

void add(LearntFile&& file, const TunedOperator& learnt) { file.add(learnt.op, learnt); }
void add(LearntFile& file, const TunedOperator& learnt, RowCount rows = RowCount::fixed) {
  file.add(learnt.op, learnt, rows);
}

TunedSchedules times_of(const char* schedule) {
  TunedSchedules times;
  times.machine = "h200x8";
  times.measured = {{schedule, 100, 100, 100, {}, {}}};
  return times;
}

class Learnt : public testing::Test {
 protected:
  Learnt()
      : folder_(std::filesystem::temp_directory_path() /
                ("stretto_learnt_" + std::to_string(getpid()))) {}
  ~Learnt() override { std::filesystem::remove_all(folder_); }
  std::string path() const { return (folder_ / "below" / "measured.json").string(); }
  void write(const std::string& text) const {
    std::filesystem::create_directories(folder_ / "below");
    std::ofstream(path()) << text;
  }
  std::string text() const {
    std::ifstream file(path());
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const std::filesystem::path folder_;
  const Machine machine_ = load_machine("h200x8");
};

TEST_F(Learnt, IsFoundByOtherProcesses) {
  LearntFile one(path(), kGpu), other(path(), kGpu);
  EXPECT_FALSE(other.find(learnt_of(1024).op, machine_));
  EXPECT_EQ(other.note(), "") << "a file that is not there yet is no reason to complain";
  add(one, learnt_of(1024));
  EXPECT_EQ(one.note(), "");
  const auto found = other.find(learnt_of(1024).op, machine_);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->measured.front().time_us, 100);
  EXPECT_EQ(found->library_us, 0) << "nobody measured it";
  EXPECT_FALSE(other.find(learnt_of(1025).op, machine_));
  add(one, learnt_of(1024, 90));
  EXPECT_EQ(other.find(learnt_of(1024).op, machine_)->measured.front().time_us, 90);
}

TEST_F(Learnt, OfAnotherGpuOrBuildIsNotTaken) {
  add(LearntFile(path(), "NVIDIA H100"), learnt_of(1024));
  EXPECT_FALSE(LearntFile(path(), kGpu).find(learnt_of(1024).op, machine_));
  std::string other_build = text();
  other_build.replace(other_build.find("\"stretto "), 9, "\"elder ");
  write(other_build);
  EXPECT_FALSE(LearntFile(path(), "NVIDIA H100").find(learnt_of(1024).op, machine_));
}

// Measured with something else that changes times: a driver, cuBLAS, links, ranks that share GPUs.
TEST_F(Learnt, MeasuredWithSomethingElseIsNotTaken) {
  const std::string here = "132 SMs, CUDA 13.0, cuBLAS 130100, NCCL 2.28.9, peer, links n";
  add(LearntFile(path(), kGpu, here), learnt_of(1024));
  const auto found = LearntFile(path(), kGpu, here).find(learnt_of(1024).op, machine_);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->gpu, kGpu) << "as sweeps name it";
  for (const std::string& other :
       {std::string("132 SMs, CUDA 13.1, cuBLAS 130100, NCCL 2.28.9, peer, links n"),
        here + ", GPUs 0 0", std::string()}) {
    EXPECT_FALSE(LearntFile(path(), kGpu, other).find(learnt_of(1024).op, machine_)) << other;
  }
  // Longer than a tuning file keeps, and alike at first.
  const std::string many = here + ", GPUs" + std::string(300, '0');
  add(LearntFile(path(), kGpu, many), learnt_of(2048));
  EXPECT_TRUE(LearntFile(path(), kGpu, many).find(learnt_of(2048).op, machine_));
  EXPECT_FALSE(LearntFile(path(), kGpu, many + "1").find(learnt_of(2048).op, machine_));
}

TEST_F(Learnt, OneBadEntryIsPassedOver) {
  LearntFile file(path(), kGpu);
  for (const int64_t m : {1024, 2048, 4096}) add(file, learnt_of(m));
  std::string bad = text();
  bad.replace(bad.find("\"gemm-rs m=2048 "), 16, "\"gemm-rs m=-204 ");
  write(bad);
  LearntFile again(path(), kGpu);
  EXPECT_TRUE(again.find(learnt_of(1024).op, machine_));
  EXPECT_THAT(again.note(), HasSubstr("an entry was passed over: tuning file "));
  EXPECT_THAT(again.note(), HasSubstr("operators[1].operator is wrong: "));
  EXPECT_TRUE(again.find(learnt_of(4096).op, machine_));
  EXPECT_FALSE(again.find(learnt_of(2048).op, machine_));
  add(again, learnt_of(512));
  EXPECT_THAT(again.note(), HasSubstr("an entry was passed over"));
  EXPECT_EQ(parse_tuning(text()).operators().size(), 3u) << "and is gone now";
  // One that somebody else wrote is left to them.
  std::string foreign = text();
  foreign.replace(foreign.find("\"gemm-rs m=4096 "), 16, "\"gemm-rs m=-409 ");
  foreign.replace(foreign.rfind("\"stretto ", foreign.find("m=512 ")), 9, "\"elder of");
  write(foreign);
  add(again, learnt_of(256));
  EXPECT_THAT(again.note(), HasSubstr("did not learn: name another file"));
  EXPECT_EQ(text(), foreign);
}

TEST_F(Learnt, BucketsAreKeptBesideFixedRows) {
  LearntFile file(path(), kGpu);
  add(file, learnt_of(1024, 100), RowCount::fixed);
  EXPECT_FALSE(file.find(learnt_of(1024).op, machine_, RowCount::bucket));
  add(file, learnt_of(1024, 120), RowCount::bucket);
  const auto fixed = file.find(learnt_of(1024).op, machine_, RowCount::fixed);
  const auto bucket = file.find(learnt_of(1024).op, machine_, RowCount::bucket);
  ASSERT_TRUE(fixed && bucket);
  EXPECT_EQ(fixed->measured.front().time_us, 100);
  EXPECT_EQ(bucket->measured.front().time_us, 120);
  EXPECT_EQ(bucket->gpu, kGpu);
}

TEST_F(Learnt, OfSeveralProductsIsFoundToo) {
  const auto mlp = [](int64_t f) {
    return make_operator("mlp", {{"m", 512}, {"h", 512}, {"f", f}}, 2);
  };
  const char* const schedule = "up:tiles/down:slices";
  LearntFile file(path(), kGpu);
  add(file, learnt_of(512));
  file.add(mlp(1024), times_of(schedule));
  EXPECT_EQ(file.note(), "");
  add(file, learnt_of(1024));
  EXPECT_EQ(file.note(), "") << "it is this build's";
  LearntFile again(path(), kGpu);
  const auto found = again.find(mlp(1024), machine_);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->measured.front().schedule, schedule);
  EXPECT_FALSE(again.find(mlp(2048), machine_));
  EXPECT_TRUE(again.find(learnt_of(512).op, machine_));
  Tuning many = parse_tuning(text());
  TunedGraph more = many.graphs().front();
  for (int64_t i = 1; i < 100; ++i) {
    more.op = mlp(1024 + 16 * i);
    many.add(more);
  }
  write(print_tuning(many));
  file.add(mlp(2048 + 1024), times_of(schedule));
  EXPECT_EQ(parse_tuning(text()).graphs().size(), 100u) << "the oldest go";
  EXPECT_FALSE(again.find(mlp(1024), machine_));
  EXPECT_TRUE(again.find(mlp(1040), machine_));
  EXPECT_TRUE(again.find(learnt_of(512).op, machine_));
  // A caller's own stands there with its text, and may have the name of a shipped one.
  const Operator own = make_graph(
      parse_graph("graph mlp m h f\ninput x [m, h] rows\ninput wu [f, h] rows\n"
                  "input wd [h, f] cols\nup = gemm x wu\ny = gemm up wd\noutput y rows\n"),
      {{"m", 512}, {"h", 512}, {"f", 1040}}, 2, DType::bf16);
  EXPECT_FALSE(again.find(own, machine_));
  file.add(own, times_of("tiles"));
  EXPECT_EQ(file.note(), "");
  EXPECT_TRUE(again.find(own, machine_));
  EXPECT_FALSE(again.find(mlp(1040), machine_)) << "the oldest has gone";
  EXPECT_FALSE(again.find(make_operator("mlp", own.sizes, 2), machine_));
}

TEST_F(Learnt, FilesOfSweepsStayAsTheyAre) {
  Tuning sweep;
  sweep.add(learnt_of(512));
  const std::string before = print_tuning(sweep);
  write(before);
  LearntFile file(path(), kGpu);
  add(file, learnt_of(1024));
  EXPECT_THAT(file.note(), HasSubstr("did not learn: name another file"));
  EXPECT_EQ(text(), before);
}

TEST_F(Learnt, WithoutAFileItIsKeptForTheProcess) {
  LearntFile nowhere("", kGpu);
  add(nowhere, learnt_of(1024));
  EXPECT_EQ(nowhere.note(), "");
  EXPECT_TRUE(nowhere.find(learnt_of(1024).op, machine_));
  EXPECT_EQ(nowhere.note(), "");
  EXPECT_FALSE(LearntFile("", kGpu).find(learnt_of(1024).op, machine_));
}

TEST_F(Learnt, WhatIsKeptForTheProcessIsNotWritten) {
  LearntFile file(path(), kGpu);
  file.keep(learnt_of(1024).op, learnt_of(1024), RowCount::bucket);
  EXPECT_TRUE(file.find(learnt_of(1024).op, machine_, RowCount::bucket));
  EXPECT_FALSE(file.find(learnt_of(1024).op, machine_, RowCount::fixed));
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(Learnt, WhatCannotBeReadIsIgnoredWithANoteAndStays) {
  for (const std::string bad :
       {"{", "[]", R"({"stretto_tuning": 2, "operators": []})",
        R"({"stretto_tuning": 1, "operators": [{"operator": "gemm-rs m=0"}]})"}) {
    write(bad);
    LearntFile file(path(), kGpu);
    EXPECT_FALSE(file.find(learnt_of(1024).op, machine_));
    EXPECT_THAT(file.note(), AnyOf(HasSubstr("measured.json' is not used: "),
                                   HasSubstr("an entry was passed over: ")));
    EXPECT_EQ(file.note().find('\n'), std::string::npos);
    add(file, learnt_of(1024));
    EXPECT_THAT(file.note(), HasSubstr("measured.json' was not written: "));
    EXPECT_EQ(text(), bad) << "it may be somebody's who named the wrong file";
  }
  std::filesystem::remove(path());
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  LearntFile pipe(path(), kGpu);
  EXPECT_FALSE(pipe.find(learnt_of(1024).op, machine_));
  EXPECT_THAT(pipe.note(), HasSubstr("is not used: "));
}

TEST_F(Learnt, WhereItCannotBeWrittenANoteSaysWhy) {
  write("");
  std::filesystem::remove(path());
  const FileLock held(path());
  LearntFile file(path(), kGpu);
  add(file, learnt_of(1024));
  EXPECT_THAT(file.note(), HasSubstr("was not written: cannot lock"));
  LearntFile below_a_file("/dev/null/measured.json", kGpu);
  add(below_a_file, learnt_of(1024));
  EXPECT_THAT(below_a_file.note(), HasSubstr("was not written: "));
  EXPECT_TRUE(below_a_file.find(learnt_of(1024).op, machine_)) << "equal layers measure once";
}

TEST_F(Learnt, TheOldestGoWhereThereAreTooMany) {
  LearntFile file(path(), kGpu);
  add(file, learnt_of(1));
  Tuning many = parse_tuning(text());
  const TunedOperator first = many.operators().front();
  for (int64_t m = 2; m <= 500; ++m) {
    TunedOperator next = first;
    next.op.m = m;
    many.add(next);
  }
  write(print_tuning(many));
  add(file, learnt_of(501));
  EXPECT_FALSE(file.find(learnt_of(1).op, machine_));
  EXPECT_TRUE(file.find(learnt_of(2).op, machine_));
  EXPECT_TRUE(file.find(learnt_of(501).op, machine_));
  EXPECT_EQ(parse_tuning(text()).operators().size(), 500u);
}

TEST_F(Learnt, ManyProcessesLoseNothing) {
  constexpr int kProcesses = 6, kEach = 4;
  for (int process = 0; process < kProcesses; ++process) {
    if (fork() != 0) continue;
    LearntFile file(path(), kGpu);
    bool good = true;
    for (int i = 0; i < kEach; ++i) {
      add(file, learnt_of(1 + process * kEach + i));
      good = good && file.note().empty();
    }
    _exit(good ? 0 : 1);
  }
  for (int process = 0; process < kProcesses; ++process) {
    int status = 1;
    wait(&status);
    EXPECT_EQ(status, 0);
  }
  LearntFile file(path(), kGpu);
  for (int64_t m = 1; m <= kProcesses * kEach; ++m) {
    EXPECT_TRUE(file.find(learnt_of(m).op, machine_)) << m;
  }
}

}  // namespace
}  // namespace stretto
