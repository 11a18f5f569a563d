// Partitions by expert against what a few lines say that they are.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "stretto/device/make_partition.h"
#include "stretto/device/partition_by_blocks.h"

namespace stretto::device {
namespace {

constexpr int32 kUntouched = -77;

struct Case {
  std::string name;
  int tokens, top_k, experts;
  std::vector<int64_t> ids;
};

Case made(std::string name, int tokens, int top_k, int experts, auto id_of) {
  Case one{std::move(name), tokens, top_k, experts, {}};
  for (int c = 0; c < tokens * top_k; ++c) one.ids.push_back(id_of(c));
  return one;
}

std::vector<Case> cases() {
  std::mt19937 dice(7);
  const auto uniform = [&](int experts) {
    return [&dice, experts](int) { return static_cast<int64_t>(dice() % unsigned(experts)); };
  };
  const auto zipf = [&](int experts) {
    return [&dice, experts](int) {
      const double x = double(dice()) / 4294967296.0;
      return static_cast<int64_t>(std::pow(experts + 1.0, x) - 1);
    };
  };
  return {
      made("no tokens", 0, 2, 8, [](int) { return 0; }),
      made("one token, one expert", 1, 1, 1, [](int) { return 0; }),
      made("uniform", 300, 3, 24, uniform(24)),
      made("zipf", 257, 8, 64, zipf(64)),
      made("one hot", 100, 2, 16, [](int) { return 5; }),
      made("one choice each", 16, 1, 16, [](int c) { return c; }),
      made("all dropped", 40, 2, 4, [](int) { return -1; }),
      made("some dropped", 40, 2, 4, [&](int) { return int64_t(dice() % 5) - 1; }),
      made("bad ids", 40, 2, 4, [&](int) { return int64_t(dice() % 9) - 3; }),
      made("far out of range", 9, 1, 4,
           [](int c) { return c % 3 == 0   ? INT32_MAX
                              : c % 3 == 1 ? INT32_MIN
                                           : 2; }),
      made("an expert twice", 30, 4, 4, [](int c) { return c % 4 / 2; }),
      made("fewer choices than experts", 3, 1, 100, [](int c) { return 40 * c; }),
  };
}

struct Made {
  std::vector<int32> tokens, expert_of_entry, row_of_choice, rows_of_expert;
  int32 bad_ids = kUntouched;
  bool operator==(const Made&) const = default;
};

// Threads that act as the lanes of one worker.
struct Team {
  static constexpr int kLanes = 4;
  std::barrier<> barrier{kLanes};
  std::array<int32, kLanes> said{};
};

struct TeamWorker {
  static constexpr int32 kCount = Team::kLanes;
  static inline thread_local Team* team = nullptr;
  static inline thread_local int32 lane = 0;

  static int32 number() { return lane; }
  static AlikeLanes alike(int32 column, int32 columns) {
    EXPECT_LT(column, columns);
    say(column);
    AlikeLanes alike{0, 0, -1};
    for (int32 other = 0; other < kCount; ++other) {
      if (team->said[size_t(other)] != column) continue;
      if (alike.first < 0) alike.first = other;
      alike.before += other < lane;
      ++alike.all;
    }
    meet();
    return alike;
  }
  static int32 of(int32 value, int32 other) {
    say(value);
    const int32 said = team->said[size_t(other)];
    meet();
    return said;
  }
  static void meet() { team->barrier.arrive_and_wait(); }

 private:
  static void say(int32 value) {
    team->said[size_t(lane)] = value;
    meet();
  }
};

// Calls act(worker) for so many workers, with what makes all know what each has written.
template <class Worker>
void by_workers(int workers, const auto& act) {
  const int lanes = Worker::kCount;
  std::barrier barrier(workers * lanes);
  std::vector<Team> teams(static_cast<size_t>(workers));
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < workers * lanes; ++thread) {
    threads.emplace_back([&, thread] {
      TeamWorker::team = &teams[size_t(thread / lanes)];
      TeamWorker::lane = thread % lanes;
      act(thread / lanes, [&] { barrier.arrive_and_wait(); });
    });
  }
}

template <typename Id, class Worker = LoneWorker>
Made run(const Case& of, int first, int experts, int entry_rows, int workers, int spare = 0,
         bool as_task = false) {
  const std::vector<Id> ids(of.ids.begin(), of.ids.end());
  const int entries = most_entries(of.tokens * of.top_k, experts, entry_rows) + spare;
  Made to{std::vector<int32>(size_t(entries) * size_t(entry_rows) + 1, kUntouched),
          std::vector<int32>(size_t(entries) + 1, kUntouched),
          std::vector<int32>(ids.size() + 1, kUntouched),
          std::vector<int32>(size_t(experts) + 1, kUntouched)};
  std::vector<int32> scratch(size_t(partition_scratch(experts, workers)) + 1, kUntouched);
  const Choices<Id> choices{ids.data(), of.tokens, of.top_k, of.experts, first, experts};
  const TaskChoices of_task{
      {reinterpret_cast<const int32*>(ids.data()), of.tokens, of.top_k, of.experts, first, experts},
      sizeof(Id) == 8};
  const Partition partition{entry_rows,
                            entries,
                            to.tokens.data(),
                            to.expert_of_entry.data(),
                            to.row_of_choice.data(),
                            to.rows_of_expert.data(),
                            &to.bad_ids};
  by_workers<Worker>(workers, [&](int worker, const auto& meet) {
    if (as_task) {
      make_partition<Worker>(of_task, partition, scratch.data(), worker, workers, meet);
    } else {
      make_partition<Worker>(choices, partition, scratch.data(), worker, workers, meet);
    }
  });
  EXPECT_EQ(scratch.back(), kUntouched);
  for (std::vector<int32>* one :
       {&to.tokens, &to.expert_of_entry, &to.row_of_choice, &to.rows_of_expert}) {
    EXPECT_EQ(one->back(), kUntouched) << "written out of bounds";
    one->pop_back();
  }
  return to;
}

// In steps, by so many parts of the choices and of the entries.
template <class Worker = LoneWorker>
Made run_in_parts(const Case& of, int first, int experts, int entry_rows, int workers, int parts,
                  int fills, int spare = 0) {
  const std::vector<int32> ids(of.ids.begin(), of.ids.end());
  const auto count = static_cast<int>(ids.size()), columns = experts + 1;
  const int entries = most_entries(count, experts, entry_rows) + spare;
  Made to{std::vector<int32>(size_t(entries) * size_t(entry_rows), kUntouched),
          std::vector<int32>(size_t(entries), kUntouched),
          std::vector<int32>(ids.size(), kUntouched), std::vector<int32>(size_t(experts))};
  const int step = columns + 3;
  std::vector<int32> counts(size_t(parts) * size_t(step), kUntouched);
  std::vector<int32> scratch(size_t(partition_scratch(experts, workers)) + 1, kUntouched);
  const auto at = [](int all, int part, int of_parts) { return all * part / of_parts; };
  const auto choices = [&](int part) {
    const int begin = at(count, part, parts);
    return Choices<int32>{
        ids.data() + begin, at(count, part + 1, parts) - begin, 1, of.experts, first, experts};
  };
  for (int part = 0; part < parts; ++part) {
    int32* const row = counts.data() + part * step;
    by_workers<Worker>(workers, [&](int worker, const auto& meet) {
      make_partition<Worker>(choices(part), {1, 0, nullptr, nullptr, nullptr, row, row + experts},
                             scratch.data(), worker, workers, meet);
    });
    EXPECT_EQ(row[columns], kUntouched) << "written out of bounds";
  }
  for (int part = 0; part < parts; ++part) {
    const PartCounts of_parts{counts.data(), step, parts, part};
    by_workers<Worker>(workers, [&](int worker, const auto& meet) {
      make_partition<Worker>(
          choices(part),
          {entry_rows, 0, nullptr, nullptr, to.row_of_choice.data() + at(count, part, parts),
           nullptr, nullptr, of_parts},
          scratch.data(), worker, workers, meet);
    });
  }
  for (int fill = 0; fill < fills; ++fill) {
    const int begin = at(entries, fill, fills), end = at(entries, fill + 1, fills);
    const bool counts_too = fill == 0;
    by_workers<Worker>(workers, [&](int worker, const auto& meet) {
      fill_entries<Worker>(
          {counts.data(), step, parts}, experts, to.row_of_choice.data(), count, begin,
          {entry_rows, end - begin, to.tokens.data() + begin * entry_rows,
           to.expert_of_entry.data() + begin, nullptr,
           counts_too ? to.rows_of_expert.data() : nullptr, counts_too ? &to.bad_ids : nullptr},
          scratch.data(), worker, workers, meet);
    });
  }
  EXPECT_EQ(scratch.back(), kUntouched);
  for (int32& choice : to.tokens) choice = choice < 0 ? choice : choice / of.top_k;
  return to;
}

// Threads that act as the blocks of a cluster, each with memory of its own.
struct BlocksOfThreads {
  int32 block, blocks, warp, warps;
  std::vector<std::vector<int32>>& memory;
  std::barrier<>&of_block, &of_all;

  void meet() const { of_block.arrive_and_wait(); }
  void meet_all() const { of_all.arrive_and_wait(); }
  void part() const {}
  void end() const { of_all.arrive_and_wait(); }
  const int32* at(int32 other, const int32* word) const {
    return memory[size_t(other)].data() + (word - memory[size_t(block)].data());
  }
};

template <class Worker>
Made run_by_blocks(const Case& of, int first, int experts, int entry_rows, int blocks, int warps,
                   int spare = 0) {
  const std::vector<int32> ids(of.ids.begin(), of.ids.end());
  const auto count = static_cast<int>(ids.size()), lanes = Worker::kCount;
  const int entries = most_entries(count, experts, entry_rows) + spare;
  Made to{std::vector<int32>(size_t(entries) * size_t(entry_rows), kUntouched),
          std::vector<int32>(size_t(entries), kUntouched),
          std::vector<int32>(ids.size(), kUntouched), std::vector<int32>(size_t(experts))};
  const auto words =
      static_cast<size_t>(block_partition_scratch(count, experts, blocks, warps, lanes));
  std::vector<std::vector<int32>> memory(size_t(blocks), std::vector<int32>(words + 1, kUntouched));
  std::vector<std::unique_ptr<std::barrier<>>> barriers;
  for (int i = 0; i < blocks; ++i) {
    barriers.push_back(std::make_unique<std::barrier<>>(warps * lanes));
  }
  std::barrier all(blocks * warps * lanes);
  std::atomic<int> tellers = 0;
  const Partition partition{
      entry_rows,
      entries,
      to.tokens.data(),
      to.expert_of_entry.data(),
      to.row_of_choice.data(),
      to.rows_of_expert.data(),
      &to.bad_ids,
  };
  by_workers<Worker>(blocks * warps, [&](int worker, const auto&) {
    const int block = worker / warps;
    make_partition_by_blocks<Worker>(
        Choices<int32>{ids.data(), count, 1, of.experts, first, experts}, partition,
        memory[size_t(block)].data(),
        BlocksOfThreads{block, blocks, worker % warps, warps, memory, *barriers[size_t(block)],
                        all},
        [&](int32 bad) {
          EXPECT_EQ(bad, to.bad_ids);
          ++tellers;
        });
  });
  EXPECT_EQ(tellers, 1);
  for (const std::vector<int32>& of_block : memory) EXPECT_EQ(of_block.back(), kUntouched);
  for (int32& choice : to.tokens) choice = choice < 0 ? choice : choice / of.top_k;
  return to;
}

Made expected(const Case& of, int first, int experts, int entry_rows, int spare = 0) {
  const int entries = most_entries(of.tokens * of.top_k, experts, entry_rows) + spare;
  Made to{std::vector<int32>(size_t(entries) * size_t(entry_rows), -1),
          std::vector<int32>(size_t(entries), -1), std::vector<int32>(of.ids.size(), -1),
          std::vector<int32>(size_t(experts), 0)};
  to.bad_ids = 0;
  for (const int64_t id : of.ids) to.bad_ids += id < -1 || id >= of.experts ? 1 : 0;
  int entry = 0;
  for (int e = 0; e < experts; ++e) {
    int& rows = to.rows_of_expert[size_t(e)];
    for (size_t c = 0; c < of.ids.size(); ++c) {
      if (of.ids[c] != first + e) continue;
      const int row = entry * entry_rows + rows++;
      to.row_of_choice[c] = row;
      to.tokens[size_t(row)] = static_cast<int32>(c) / of.top_k;
    }
    for (const int begin = entry; entry < begin + (rows + entry_rows - 1) / entry_rows; ++entry) {
      to.expert_of_entry.at(size_t(entry)) = e;
    }
  }
  return to;
}

TEST(Routing, PartitionsAreThoseOfTheDefinition) {
  for (const Case& one : cases()) {
    for (const int entry_rows : {1, 16, 64}) {
      const Made right = expected(one, 0, one.experts, entry_rows);
      for (const int workers : {1, 3, 16, 37}) {
        EXPECT_EQ(run<int32>(one, 0, one.experts, entry_rows, workers), right)
            << one.name << " " << entry_rows << " " << workers;
      }
      EXPECT_EQ((run<long long>(one, 0, one.experts, entry_rows, 2)), right) << one.name;
      EXPECT_EQ((run<long long>(one, 0, one.experts, entry_rows, 2, 0, true)), right) << one.name;
      EXPECT_EQ((run<int32>(one, 0, one.experts, entry_rows, 2, 0, true)), right) << one.name;
    }
  }
}

TEST(Routing, WorkersOfSeveralLanesMakeTheSame) {
  for (const Case& one : cases()) {
    const Made right = expected(one, 0, one.experts, 16);
    for (const int workers : {1, 3}) {
      EXPECT_EQ((run<int32, TeamWorker>(one, 0, one.experts, 16, workers)), right)
          << one.name << " " << workers;
    }
    if (one.experts % 4 != 0) continue;
    const int own = one.experts / 4;
    EXPECT_EQ((run<int32, TeamWorker>(one, own, own, 8, 2, 2)), expected(one, own, own, 8, 2))
        << one.name;
  }
}

TEST(Routing, BlocksThatReadOneAnotherMakeTheSame) {
  for (const Case& one : cases()) {
    for (const auto& [blocks, warps] : {std::pair(1, 1), std::pair(1, 3), std::pair(3, 2)}) {
      const Made right = expected(one, 0, one.experts, 16);
      EXPECT_EQ(run_by_blocks<LoneWorker>(one, 0, one.experts, 16, blocks, warps), right)
          << one.name << " " << blocks << " " << warps;
      EXPECT_EQ(run_by_blocks<TeamWorker>(one, 0, one.experts, 16, blocks, warps), right)
          << one.name << " " << blocks << " " << warps;
      if (one.experts % 4 != 0) continue;
      const int own = one.experts / 4;
      EXPECT_EQ((run_by_blocks<TeamWorker>(one, own, own, 8, blocks, warps, 2)),
                expected(one, own, own, 8, 2))
          << one.name;
    }
  }
}

// Where one block has no room for what it keeps more do; and where none has, steps do it.
TEST(Routing, AsManyBlocksAsSaveTimeMakeAPartition) {
  EXPECT_EQ(partition_blocks(0, 1), 1);
  EXPECT_EQ(partition_blocks(2048, 256), 1);
  EXPECT_EQ(partition_blocks(2049, 256), 4);
  EXPECT_EQ(partition_blocks(8192, 16), 8);
  EXPECT_EQ(partition_blocks(65536, 256), 8);
  EXPECT_EQ(partition_blocks(1 << 20, 256), 0);
  EXPECT_EQ(partition_blocks(128, 1400), 0);
}

TEST(Routing, StepsOfPartsMakeTheSame) {
  for (const Case& one : cases()) {
    for (const int parts : {1, 2, 9, 17}) {
      const Made right = expected(one, 0, one.experts, 16);
      EXPECT_EQ(run_in_parts(one, 0, one.experts, 16, 3, parts, 4), right)
          << one.name << " " << parts;
      if (one.experts % 4 != 0) continue;
      const int own = one.experts / 4;
      EXPECT_EQ(run_in_parts(one, own, own, 8, 2, parts, 3, 2), expected(one, own, own, 8, 2))
          << one.name << " " << parts;
    }
    EXPECT_EQ((run_in_parts<TeamWorker>(one, 0, one.experts, 16, 2, 3, 2)),
              expected(one, 0, one.experts, 16))
        << one.name;
  }
}

// None is an expert's, whatever its lower half says.
TEST(Routing, IdsBeyond32BitsAreBad) {
  Case one{"wide", 5, 2, 4, {}};
  constexpr int64_t kMore = int64_t{1} << 32;
  one.ids = {0, kMore + 1, 3, -1, kMore - 1, kMore, -kMore, -kMore + 2, 2 * kMore + 3, 1};
  const Made right = expected(one, 0, 4, 8);
  EXPECT_EQ(right.bad_ids, 6);
  EXPECT_EQ((run<long long>(one, 0, 4, 8, 3)), right);
  EXPECT_EQ((run<long long>(one, 0, 4, 8, 3, 0, true)), right);
  EXPECT_EQ((run<long long, TeamWorker>(one, 0, 4, 8, 3, 0, true)), right);
}

TEST(Routing, ARankPlacesItsOwnExpertsOnly) {
  for (const Case& one : cases()) {
    if (one.experts % 4 != 0) continue;
    const int own = one.experts / 4;
    for (int rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(run<int32>(one, rank * own, own, 8, 3, 2), expected(one, rank * own, own, 8, 2))
          << one.name << " rank " << rank;
    }
  }
}

// As it may be of memory that another run writes already, since this one was given up.
TEST(Routing, NothingIsWrittenOutsideWhereIdsChangeMeanwhile) {
  constexpr int kTokens = 64, kExperts = 4, kEntryRows = 16;
  for (int changed_at = 1; changed_at <= 4; ++changed_at) {
    std::vector<int32> ids(kTokens);
    for (int i = 0; i < kTokens; ++i) ids[size_t(i)] = i % kExperts;
    const int entries = kTokens / kEntryRows;
    std::vector<int32> tokens(size_t(kTokens) + 64, kUntouched), experts(size_t(entries) + 1);
    std::vector<int32> rows(kTokens), counts(kExperts);
    std::vector<int32> scratch(static_cast<size_t>(partition_scratch(kExperts, 1)));
    int32 bad_ids = 0;
    int met = 0;
    make_partition(Choices<int32>{ids.data(), kTokens, 1, kExperts, 0, kExperts},
                   Partition{kEntryRows, entries, tokens.data(), experts.data(), rows.data(),
                             counts.data(), &bad_ids},
                   scratch.data(), 0, 1, [&] {
                     if (++met == changed_at) std::fill(ids.begin(), ids.end(), kExperts - 1);
                   });
    EXPECT_EQ(met, 4);
    for (size_t i = kTokens; i < tokens.size(); ++i) EXPECT_EQ(tokens[i], kUntouched);
  }
}

TEST(Routing, SomeRoutingNeedsAllEntriesAndNoneMore) {
  for (const int experts : {1, 3, 24}) {
    for (const int choices : {0, 1, 2, 23, 24, 25, 100, 900}) {
      for (const int entry_rows : {1, 2, 16, 64}) {
        // As many experts as can have a choice have one more than whole entries.
        const int used = std::min(experts, choices);
        const int entries = most_entries(choices, experts, entry_rows);
        const int others = used == 0 ? 0 : (choices - (used - 1) + entry_rows - 1) / entry_rows;
        EXPECT_EQ(entries, std::max(0, used - 1) + others);
        EXPECT_LE(entries, (choices + entry_rows - 1) / entry_rows + experts);
      }
    }
  }
}

}  // namespace
}  // namespace stretto::device
