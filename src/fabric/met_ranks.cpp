// Ranks that have met by means of their own: they tell each other once where rank 0 listens, and
// from there on are a job like any other.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "core/text.h"
#include "fabric/frame.h"
#include "fabric/job.h"
#include "fabric/meeting_file.h"
#include "fabric/tcp_group.h"
#include "stretto/error.h"

namespace stretto::fabric {
namespace {

constexpr size_t kBytes = 256;  // of what each tells, padded
constexpr std::string_view kTitle = "stretto-meeting-1";

std::string this_machine() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  file >> id;
  return id.empty() ? "unknown" : id;
}

struct Told {
  int rank = -1, ranks = -1, port = 0;
  std::string machine, secret;
};

std::string text_of(const Told& told) {
  std::string text = fmt::format("{} {} {} {} {} {}", kTitle, told.rank, told.ranks, told.machine,
                                 told.port, told.secret.empty() ? "-" : told.secret);
  text.resize(kBytes, ' ');
  return text;
}

Told told_from(const std::string& text, size_t place) {
  std::vector<std::string_view> words;
  for (const std::string_view word : split(text, ' ')) {
    if (!word.empty()) words.push_back(word);
  }
  const auto number = [&](size_t i) { return static_cast<int>(int_from(words[i]).value_or(-1)); };
  if (words.size() != 6 || words[0] != kTitle) {
    throw UsageError(fmt::format(
        "what the exchange has of rank {} is not what a rank of this version of Stretto gave",
        place));
  }
  return {number(1), number(2), number(4), std::string(words[3]), std::string(words[5])};
}

void require_agreement(const std::vector<Told>& all, const MetRank& job) {
  if (all.size() != static_cast<size_t>(job.ranks)) {
    throw UsageError(
        fmt::format("{} ranks were asked for, and the exchange has {}", job.ranks, all.size()));
  }
  for (size_t place = 0; place < all.size(); ++place) {
    const Told& told = all[place];
    if (told.ranks != job.ranks) {
      throw UsageError(
          fmt::format("ranks disagree on how many they are: rank {} says {}, rank {} "
                      "says {}",
                      job.rank, job.ranks, place, told.ranks));
    }
    if (told.rank != static_cast<int>(place)) {
      throw UsageError(fmt::format(
          "the exchange has rank {} in the place of rank {}: ranks are 0 to {}, each once, in the "
          "exchange's order",
          told.rank, place, job.ranks - 1));
    }
    if (told.machine != all[0].machine) {
      throw UsageError(fmt::format(
          "rank {} is on another machine than rank 0; all ranks of a context are on one", place));
    }
  }
}

}  // namespace

std::unique_ptr<HostGroup> meet(const MetRank& job, double run_timeout_s) {
  if (job.rank < 0 || job.rank >= job.ranks) {
    throw UsageError(fmt::format("rank {} of {}: ranks are 0 to {}", job.rank, job.ranks,
                                 std::max(0, job.ranks - 1)));
  }
  if (job.ranks == 1) return solo_group();
  if (!job.exchange) {
    throw UsageError(
        fmt::format("{} ranks meet through an exchange, and none was given", job.ranks));
  }
  Job times;  // as of other jobs
  times.allow_waits_of(run_timeout_s);
  Member member{job.rank, job.ranks, {}, times.join_timeout_s, times.timeout_s};
  Address address{"127.0.0.1", 0};
  Told mine{job.rank, job.ranks, 0, this_machine(), {}};
  std::unique_ptr<TcpServer> server;
  if (job.rank == 0) {
    mine.secret = new_secret();
    server = std::make_unique<TcpServer>(address, job.ranks, mine.secret);
    mine.port = server->port();
  }
  std::vector<Told> all;
  for (const std::string& text : job.exchange(text_of(mine))) {
    all.push_back(told_from(text, all.size()));
  }
  require_agreement(all, job);
  member.secret = all[0].secret;
  address.port = all[0].port;
  return tcp_group(member, address, {}, std::move(server));
}

}  // namespace stretto::fabric
