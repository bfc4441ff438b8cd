// Shares the steps of one pass between the calling thread and helpers.
//
// A step has tasks, which all threads take one by one. Nobody waits for a helper to come: the
// caller does what is left. Between two steps of a pass a helper spins, because to wake a thread
// costs more than a step; between passes it sleeps.
//
// Why no helper touches a pass that is over:
// - A thread runs a task only after it has counted it as taken in the ticket, and a ticket names
//   its step. So it takes tasks only of the step that is under way.
// - A step ends when all its tasks are done, so no task of a step outlives it.
// - Before it takes a task a helper reads nothing of a pass but its ticket.
// A helper that comes late may take tasks of the pass after its own. That is harmless: its number
// is its own for ever, and each pass has room for all helpers that there are.
#pragma once

#include <immintrin.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <new>

namespace headlight {

constexpr int kMostThreads = 64;

class Team {
 public:
  static constexpr long kMostTasks = (1l << 20) - 1;

  // Lets up to `threads` - 1 helpers join until `leave`. Returns the number of threads that need
  // room; 1 if the caller is alone, because it wants to be, another pass has the helpers, or none
  // can be made.
  int gather(std::int64_t threads) {
    const int most = static_cast<int>(std::min<std::int64_t>(threads, kMostThreads));
    if (most < 2 || pthread_mutex_trylock(&taken_) != 0) return 1;
    while (helpers_ < most - 1 && add_helper()) continue;
    if (helpers_ == 0) {
      pthread_mutex_unlock(&taken_);
      return 1;
    }
    ticket_.store(next_ticket(0), std::memory_order_release);
    pthread_mutex_lock(&asleep_);
    joined_ = 0;
    wanted_ = most - 1;
    open_.store(++passes_, std::memory_order_release);
    pthread_cond_broadcast(&awake_);
    pthread_mutex_unlock(&asleep_);
    return helpers_ + 1;
  }

  void leave() {
    open_.store(0, std::memory_order_release);
    pthread_mutex_unlock(&taken_);
  }

  // Runs up to `kMostTasks` tasks, each with the number of its thread; the caller is number 0.
  template <class Work>
  void run(long count, Work& work) {
    call_ = [](void* context, long task, int thread) {
      (*static_cast<Work*>(context))(task, thread);
    };
    context_ = &work;
    done_.store(0, std::memory_order_relaxed);
    ticket_.store(next_ticket(count), std::memory_order_release);
    take_tasks(0);
    for (int turns = 0; done_.load(std::memory_order_acquire) < count; ++turns) pause(turns);
  }

  // Begins anew in a process that a fork made, where no helper lives and locks may be held.
  void forget() { new (this) Team; }

 private:
  // A ticket holds the number of its step, the number of tasks, and how many of them are taken.
  static constexpr int kBits = 20;
  static constexpr std::uint64_t kMask = (std::uint64_t{1} << kBits) - 1;

  struct Seat {
    Team* team;
    int number;
  };

  std::uint64_t next_ticket(long count) {
    return (++steps_ << (2 * kBits)) | (static_cast<std::uint64_t>(count) << kBits);
  }

  bool add_helper() {
    Seat& seat = seats_[helpers_];
    seat = {this, helpers_ + 1};
    pthread_t thread;
    if (pthread_create(&thread, nullptr, &Team::help, &seat) != 0) return false;
    pthread_detach(thread);
    ++helpers_;
    return true;
  }

  bool take_tasks(int thread) {
    bool took = false;
    std::uint64_t ticket = ticket_.load(std::memory_order_acquire);
    for (;;) {
      const std::uint64_t task = ticket & kMask, count = (ticket >> kBits) & kMask;
      if (task >= count) return took;
      // If this fails, it reads the ticket again.
      if (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel)) continue;
      call_(context_, static_cast<long>(task), thread);
      done_.fetch_add(1, std::memory_order_acq_rel);
      took = true;
      ticket = ticket_.load(std::memory_order_acquire);
    }
  }

  static void pause(int turns) {
    if (turns % 4096 == 4095) {
      sched_yield();
    } else {
      _mm_pause();
    }
  }

  static void* help(void* seat) {
    static_cast<Seat*>(seat)->team->help(static_cast<Seat*>(seat)->number);
    return nullptr;
  }

  [[noreturn]] void help(int number) {
    for (;;) {
      pthread_mutex_lock(&asleep_);
      while (open_.load(std::memory_order_acquire) == 0 || joined_ >= wanted_) {
        pthread_cond_wait(&awake_, &asleep_);
      }
      ++joined_;
      const std::uint64_t pass = open_.load(std::memory_order_acquire);
      pthread_mutex_unlock(&asleep_);
      for (int turns = 0; open_.load(std::memory_order_acquire) == pass; ++turns) {
        if (take_tasks(number)) turns = 0;
        pause(turns);
      }
    }
  }

  pthread_mutex_t taken_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_t asleep_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t awake_ = PTHREAD_COND_INITIALIZER;
  int helpers_ = 0, wanted_ = 0, joined_ = 0;
  std::uint64_t steps_ = 0, passes_ = 0;
  void (*call_)(void*, long, int) = nullptr;
  void* context_ = nullptr;
  Seat seats_[kMostThreads] = {};
  alignas(64) std::atomic<std::uint64_t> open_{0};  // number of the pass that helpers may join
  alignas(64) std::atomic<std::uint64_t> ticket_{0};
  alignas(64) std::atomic<long> done_{0};
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
  void run(long count, Work& work) {
    if (threads_ > 1 && count > 1 && count <= Team::kMostTasks) {
      team_.run(count, work);
    } else {
      for (long task = 0; task < count; ++task) work(task, 0);
    }
  }

 private:
  Team& team_;
  const int threads_;
};

}  // namespace headlight
