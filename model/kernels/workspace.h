// Lends passes the memory for their intermediate results.
//
// Memory stays for later passes: to ask the operating system for it costs a page fault for each
// 4 kB. There are as many workspaces as there were passes at once.
#pragma once

#include <memory>
#include <mutex>
#include <new>

#include "team.h"

namespace headlight::HEADLIGHT_SET {

// An array that grows and never shrinks, on a cache line's boundary.
class Buffer {
 public:
  // Returns room for `count` numbers; its content is undefined. Throws std::bad_alloc.
  template <class Number>
  Number* room(Index count) {
    const std::size_t needed = (static_cast<std::size_t>(count) * sizeof(Number) + 63) / 64 * 64;
    if (needed > bytes_) {
      bytes_ = 0;
      start_.reset();  // before, since both together may not fit
      start_.reset(::operator new(needed, kLine));
      bytes_ = needed;
    }
    return static_cast<Number*>(start_.get());
  }

 private:
  static constexpr std::align_val_t kLine{64};
  struct Release {
    void operator()(void* start) const { ::operator delete(start, kLine); }
  };

  std::unique_ptr<void, Release> start_;
  std::size_t bytes_ = 0;
};

// The memory of one pass.
struct Workspace {
  Buffer starts, hidden, states, joined, context, inner, plain, firsts, queries, turned;
  Buffer scratch[kMostThreads];
  Workspace* next = nullptr;
};

// The workspaces that no pass has.
class Workspaces {
 public:
  // Throws std::bad_alloc.
  Workspace* take() {
    {
      const std::lock_guard<std::mutex> guard(lock_);
      if (Workspace* const taken = free_) {
        free_ = taken->next;
        return taken;
      }
    }
    return new Workspace;
  }

  void give_back(Workspace* taken) {
    const std::lock_guard<std::mutex> guard(lock_);
    taken->next = free_;
    free_ = taken;
  }

  // Frees the lock in a process that a fork made, where its holder may not live.
  void forget() { new (&lock_) std::mutex; }

 private:
  std::mutex lock_;
  Workspace* free_ = nullptr;
};

}  // namespace headlight::HEADLIGHT_SET
