// Threads that wait at an address: what wakes them, and what to say when nobody can go on.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "fibre/engine.h"

namespace stretto::fibre {

bool Engine::wait(Thread& thread, const Address& address, size_t bytes, Where where,
                  const std::function<bool(bool first)>& ready,
                  const std::function<std::string()>& text) {
  step(thread, where);
  for (bool first = true; !ready(first); first = false) {
    if (first) continue;  // what was loaded early does not say that there is nothing to come
    if (expired_) {
      ++num_expired;
      return false;
    }
    thread.where = where;
    thread.wait_address = address;
    thread.wait_bytes = bytes;
    thread.wait_text = text();
    waiting_.push_back(thread.index);
    park(thread, ThreadState::kWaiting);
  }
  return true;
}

void Engine::wake(const Allocation& allocation, int rank, int64_t offset, size_t bytes) {
  for (size_t i = 0; i < waiting_.size();) {
    Thread& thread = *threads_[waiting_[i]];
    const Address& at = thread.wait_address;
    if (at.allocation == &allocation && at.rank == rank &&
        at.offset < offset + static_cast<int64_t>(bytes) &&
        offset < at.offset + static_cast<int64_t>(thread.wait_bytes)) {
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
      unpark(thread);
    } else {
      ++i;
    }
  }
}

// With an absent rank, waits that cannot be satisfied run into their deadline.
bool Engine::expire_waits() {
  if (expired_ || std::find(absent.begin(), absent.end(), true) == absent.end()) return false;
  expired_ = true;
  for (uint32_t index : waiting_) unpark(*threads_[index]);
  waiting_.clear();
  return true;
}

std::string Engine::describe_stuck() const {
  std::string text = "nobody can go on";
  std::set<std::string> lines;
  for (const auto& thread : threads_) {
    if (thread->state != ThreadState::kWaiting && thread->state != ThreadState::kAtBarrier &&
        thread->state != ThreadState::kBehindKernel) {
      continue;
    }
    std::string line =
        fmt::format("rank {} block {} thread {} ({}:{}, launch {}) ", thread->rank, thread->block,
                    thread->thread, thread->where.file, thread->where.line, thread->launch->number);
    if (thread->state == ThreadState::kAtBarrier) {
      line += "is at a barrier; not there:";
      for (const Thread* other : thread->group->threads) {
        if (other->state != ThreadState::kAtBarrier) line += fmt::format(" {}", other->thread);
      }
    } else if (thread->state == ThreadState::kBehindKernel) {
      line += "waits for the kernel before it on its stream";
    } else {
      line += thread->wait_text;
      const Address& at = thread->wait_address;
      const auto& words = at.allocation->copy(at.rank).words;
      const auto word = words.find(at.offset);
      if (thread->wait_bytes == sizeof(Vec16)) {
        // Data that says itself that it has come; nobody raises it.
      } else if (word == words.end() || !word->second.raised_by.known()) {
        line += "; nobody has raised it";
      } else {
        line += "; last raised by " + to_text(word->second.raised_by);
      }
    }
    lines.insert(std::move(line));
  }
  for (size_t rank = 0; rank < streams_.size(); ++rank) {
    for (const Stream& stream : streams_[rank]) {
      for (const auto& launch : stream.queue) {
        if (!launch->has_begun || launch->next_block == launch->blocks) continue;
        lines.insert(fmt::format("rank {}: blocks {} to {} wait for a resident block to leave",
                                 rank, launch->next_block, launch->blocks - 1));
      }
    }
  }
  constexpr size_t kMaxLines = 24;
  size_t shown = 0;
  for (const std::string& line : lines) {
    if (shown++ == kMaxLines) {
      text += fmt::format("\n  and {} more", lines.size() - kMaxLines);
      break;
    }
    text += "\n  " + line;
  }
  return text;
}

}  // namespace stretto::fibre
