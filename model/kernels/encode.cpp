// Classifies texts by an encoder (Vaswani et al. 2017; Devlin et al. 2019) without padding, with the
// instructions that this file is compiled for.
#include "encoder.h"

#if !defined(_WIN32)
#include <pthread.h>
#endif

#include <atomic>
#include <cstdint>
#include <memory>

#include "pass.h"

#define NAME_OF(set) NAME(set)
#define NAME(set) #set

namespace headlight::HEADLIGHT_SET {
namespace {

enum Fault { kNone, kOutOfRange, kOutOfMemory };

// What all passes share. Never destroyed: helpers sleep in the team until the process ends.
struct Shared {
  Team team;
  Workspaces spaces;
};

std::atomic<Shared*> current{nullptr};

// The first pass makes it. Whatever runs when the library is loaded runs on every processor, also
// on those without the instructions of this file. No lock is held, which a fork could keep.
Shared& shared() {
  Shared* made = current.load();
  if (made != nullptr) return *made;
  Shared* const fresh = new Shared;
#if !defined(_WIN32)
  pthread_atfork(nullptr, nullptr, [] {
    if (Shared* const kept = current.load()) {
      kept->team.forget();
      kept->spaces.forget();
    }
  });
#endif
  if (current.compare_exchange_strong(made, fresh)) return *fresh;
  delete fresh;  // another pass was first
  return *made;
}

bool is_in_range(const Network& network, const Request& request) {
  Index tokens = 0;
  for (Index text = 0; text < request.texts; ++text) {
    const std::int64_t length = request.lengths[text];
    if (length < 1 || length > network.positions || length > request.longest) return false;
    tokens += length;
  }
  for (Index at = 0; at < tokens; ++at) {
    if (request.ids[at] < 0 || request.ids[at] >= network.vocabulary) return false;
  }
  return true;
}

template <Kind kind>
void run(const Network& network, const Request& request, std::int64_t threads) {
  const auto give_back = [](Workspace* taken) { shared().spaces.give_back(taken); };
  const std::unique_ptr<Workspace, decltype(give_back)> space(shared().spaces.take(), give_back);
  Gathering gathering(shared().team, threads);
  Pass<kind>(network, request, gathering, *space).run();
}

// Classifies texts. Several threads may call it at once.
//
// Args:
//   network: the parameters.
//   ids: token ids of all texts, one text behind the other.
//   lengths: tokens of each text.
//   texts: number of texts.
//   threads: that may share the pass.
//   logits: gets float32 [texts, classes].
//   weights: gets float32 [layers, texts, H, longest, longest], or null. Rows past a text's end
//     stay as they are.
//   longest: tokens of the longest text.
//   head_mask: factor of each head's output, float32 [layers, texts, H], or null.
//   states: gets the states before the last layer, float32 [tokens, D], or null.
//
// Returns 0; 1 if an id or a length is outside the network's tables, 2 without memory: then nothing
// was written.
int encode(const Network* network, const std::int64_t* ids, const std::int64_t* lengths,
           std::int64_t texts, std::int64_t threads, float* logits, float* weights,
           std::int64_t longest, const float* head_mask, float* states) noexcept {
  const Request request = {ids,    lengths, static_cast<Index>(texts), static_cast<Index>(longest),
                           logits, weights, head_mask, states};
  if (!is_in_range(*network, request)) return kOutOfRange;
  try {
    switch (static_cast<Kind>(network->kind)) {
      case Kind::kFloat32:
        run<Kind::kFloat32>(*network, request, threads);
        break;
      case Kind::kBfloat16:
        if constexpr (kHasBfloat16) run<Kind::kBfloat16>(*network, request, threads);
        break;
      case Kind::kInt8:
        run<Kind::kInt8>(*network, request, threads);
        break;
    }
  } catch (...) {  // only std::bad_alloc is thrown
    return kOutOfMemory;
  }
  return kNone;
}

}  // namespace

extern const InstructionSet set;
const InstructionSet set = {NAME_OF(HEADLIGHT_SET),
                            kHasBfloat16 ? 0b111 : 0b101,
                            kPanel,
                            encode};

}  // namespace headlight::HEADLIGHT_SET
