// Shares the steps of one pass between the calling thread and helpers.
//
// A step has tasks, which all threads take one by one. Nobody waits for a helper to come: the
// caller does what is left. Between two steps of a pass a thread spins, because to wake one costs
// more than a step, but only for some microseconds: on a busy machine the others may need its core.
//
// Why no helper touches a pass that is over:
// - A thread runs a task only after it has counted it as taken in the ticket, and a ticket names
//   its step. So it takes tasks only of the step that is under way.
// - A step ends when all its tasks are done, so no task of a step outlives it.
// - Before it takes a task a helper reads nothing of a pass but its ticket.
// A helper that comes late may take tasks of the pass after its own. That is harmless: its number
// is its own for ever, and each pass has room for all helpers that there are.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

#include "encoder.h"

namespace headlight::HEADLIGHT_SET {

constexpr int kMostThreads = 64;
constexpr std::chrono::microseconds kSpin{20};

class Team {
 public:
  static constexpr Index kMostTasks = (Index{1} << 20) - 1;

  // Lets up to `threads` - 1 helpers join until `leave`. Returns the number of threads that need
  // room; 1 if the caller is alone, because it wants to be, another pass has the helpers, or none
  // can be made.
  int gather(std::int64_t threads) {
    const int most = static_cast<int>(std::min<std::int64_t>(threads, kMostThreads));
    if (most < 2 || !taken_.try_lock()) return 1;
    while (helpers_ < most - 1 && add_helper()) continue;
    if (helpers_ == 0) {
      taken_.unlock();
      return 1;
    }
    ticket_.store(next_ticket(0), std::memory_order_release);
    const std::lock_guard<std::mutex> guard(asleep_);
    joined_ = 0;
    wanted_ = most - 1;
    open_.store(++passes_, std::memory_order_release);
    awake_.notify_all();
    return helpers_ + 1;
  }

  void leave() {
    open_.store(0, std::memory_order_release);
    taken_.unlock();
  }

  // Runs up to `kMostTasks` tasks, each with the number of its thread; the caller is number 0.
  template <class Work>
  void run(Index count, Work& work) {
    call_ = [](void* context, Index task, int thread) {
      (*static_cast<Work*>(context))(task, thread);
    };
    context_ = &work;
    done_.store(0, std::memory_order_relaxed);
    ticket_.store(next_ticket(count));
    wake();
    take_tasks(0);
    wait_until([&] { return done_.load() == count; });
  }

  // Begins anew in a process that a fork made, where no helper lives and locks may be held.
  void forget() { new (this) Team; }

 private:
  // A ticket holds the number of its step, the number of tasks, and how many of them are taken.
  static constexpr int kBits = 20;
  static constexpr std::uint64_t kMask = (std::uint64_t{1} << kBits) - 1;

  std::uint64_t next_ticket(Index count) {
    return (++steps_ << (2 * kBits)) | (static_cast<std::uint64_t>(count) << kBits);
  }

  bool add_helper() {
    try {
      std::thread([this, number = helpers_ + 1] { help(number); }).detach();
    } catch (const std::system_error&) {
      return false;
    }
    ++helpers_;
    return true;
  }

  static bool has_tasks(std::uint64_t ticket) {
    return (ticket & kMask) < (ticket >> kBits & kMask);
  }

  void take_tasks(int thread) {
    std::uint64_t ticket = ticket_.load(std::memory_order_acquire);
    while (has_tasks(ticket)) {
      const std::uint64_t task = ticket & kMask, count = (ticket >> kBits) & kMask;
      // If this fails, it reads the ticket again.
      if (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel)) continue;
      call_(context_, static_cast<Index>(task), thread);
      if (done_.fetch_add(1) + 1 == static_cast<Index>(count) && thread > 0) wake();
      ticket = ticket_.load(std::memory_order_acquire);
    }
  }

  // Spins, then sleeps. A sleeper is counted before it looks once more; `wake` comes after a change.
  template <class Ready>
  void wait_until(Ready ready) {
    const auto start = std::chrono::steady_clock::now();
    for (int turn = 1; turn % 16 || std::chrono::steady_clock::now() - start < kSpin; ++turn) {
      if (ready()) return;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#else
      asm volatile("yield");
#endif
    }
    std::unique_lock<std::mutex> guard(asleep_);
    ++sleepers_;
    awake_.wait(guard, ready);
    --sleepers_;
  }

  void wake() {
    if (sleepers_.load() == 0) return;
    const std::lock_guard<std::mutex> guard(asleep_);
    awake_.notify_all();
  }

  [[noreturn]] void help(int number) {
    for (;;) {
      std::unique_lock<std::mutex> guard(asleep_);
      awake_.wait(guard, [this] { return open_.load() != 0 && joined_ < wanted_; });
      ++joined_;
      const std::uint64_t pass = open_.load(std::memory_order_acquire);
      guard.unlock();
      while (open_.load(std::memory_order_acquire) == pass) {
        take_tasks(number);
        wait_until([&] { return open_.load() != pass || has_tasks(ticket_.load()); });
      }
    }
  }

  std::mutex taken_, asleep_;
  std::condition_variable awake_;
  int helpers_ = 0, wanted_ = 0, joined_ = 0;
  std::uint64_t steps_ = 0, passes_ = 0;
  void (*call_)(void*, Index, int) = nullptr;
  void* context_ = nullptr;
  alignas(64) std::atomic<std::uint64_t> open_{0};  // number of the pass that helpers may join
  alignas(64) std::atomic<std::uint64_t> ticket_{0};
  alignas(64) std::atomic<Index> done_{0};
  alignas(64) std::atomic<int> sleepers_{0};
};

// The threads of one pass, as long as it lives.
class Gathering {
 public:
  Gathering(Team& team, std::int64_t threads) : team_(team), threads_(team.gather(threads)) {}
  Gathering(const Gathering&) = delete;
  Gathering& operator=(const Gathering&) = delete;
  ~Gathering() {
    if (threads_ > 1) team_.leave();
  }

  // Threads that need room of their own.
  int threads() const { return threads_; }

  // Runs tasks, each with the number of its thread, and returns when all are done.
  template <class Work>
  void run(Index count, Work&& work) {
    if (threads_ > 1 && count > 1 && count <= Team::kMostTasks) {
      team_.run(count, work);
    } else {
      for (Index task = 0; task < count; ++task) work(task, 0);
    }
  }

 private:
  Team& team_;
  const int threads_;
};

}  // namespace headlight::HEADLIGHT_SET
