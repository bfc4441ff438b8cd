// Lends passes the memory for their intermediate results.
//
// Memory stays for later passes: to ask the operating system for it costs a page fault for each
// 4 kB. There are as many workspaces as there were passes at once.
#pragma once

#include <pthread.h>

#include <cstdlib>
#include <new>

#include "team.h"

namespace headlight {

// An array that grows and never shrinks, on a cache line's boundary.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { std::free(start_); }

  // Returns room for `count` numbers; its content is undefined. Throws std::bad_alloc.
  template <class Number>
  Number* room(long count) {
    const std::size_t needed = (static_cast<std::size_t>(count) * sizeof(Number) + 63) / 64 * 64;
    if (needed > bytes_) {
      std::free(start_);
      bytes_ = 0;
      start_ = std::aligned_alloc(64, needed);
      if (start_ == nullptr) throw std::bad_alloc();
      bytes_ = needed;
    }
    return static_cast<Number*>(start_);
  }

 private:
  void* start_ = nullptr;
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
    pthread_mutex_lock(&lock_);
    Workspace* taken = free_;
    if (taken != nullptr) free_ = taken->next;
    pthread_mutex_unlock(&lock_);
    return taken != nullptr ? taken : new Workspace;
  }

  void give_back(Workspace* taken) {
    pthread_mutex_lock(&lock_);
    taken->next = free_;
    free_ = taken;
    pthread_mutex_unlock(&lock_);
  }

  // Frees the lock in a process that a fork made, where its holder may not live.
  void forget() { lock_ = PTHREAD_MUTEX_INITIALIZER; }

 private:
  pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
  Workspace* free_ = nullptr;
};

// Borrows a workspace as long as it lives.
class Loan {
 public:
  explicit Loan(Workspaces& spaces) : spaces_(spaces), space_(spaces.take()) {}
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;
  ~Loan() { spaces_.give_back(space_); }
  Workspace& operator*() const { return *space_; }

 private:
  Workspaces& spaces_;
  Workspace* const space_;
};

}  // namespace headlight
