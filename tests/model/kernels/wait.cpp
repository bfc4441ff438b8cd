// Prints the milliseconds of processor time of threads that wait for each other's long tasks.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <thread>

#define HEADLIGHT_SET here
#include "../../../model/kernels/team.h"

namespace {

struct Task {
  int longer;  // the thread that the other one waits for
  std::atomic<int> taken{0};

  void operator()(headlight::Index, int thread) {
    for (++taken; taken < 2;) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (thread == longer) std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
};

}  // namespace

int main() {
  auto& team = *new headlight::here::Team;  // helpers sleep in it until the process ends
  headlight::here::Gathering gathering(team, 2);
  const std::clock_t start = std::clock();
  for (int longer = 0; longer < 2; ++longer) {
    Task task{longer};
    gathering.run(2, task);
  }
  std::printf("%ld\n", static_cast<long>((std::clock() - start) * 1000 / CLOCKS_PER_SEC));
}
