// Classifies texts by an encoder (Vaswani et al. 2017; Devlin et al. 2019) without padding.

#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,fma")

#include "encoder.h"

#include <pthread.h>

#include <cstdint>

#include "pass.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace headlight {
namespace {

enum Fault { kNone, kOutOfRange, kOutOfMemory };

Team team;
Workspaces spaces;

[[maybe_unused]] const int fork_is_watched = pthread_atfork(nullptr, nullptr, [] {
  team.forget();
  spaces.forget();
});

bool is_in_range(const Network& network, const Request& request) {
  long tokens = 0;
  for (long text = 0; text < request.texts; ++text) {
    const std::int64_t length = request.lengths[text];
    if (length < 1 || length > network.positions || length > request.longest) return false;
    tokens += length;
  }
  for (long at = 0; at < tokens; ++at) {
    if (request.ids[at] < 0 || request.ids[at] >= network.vocabulary) return false;
  }
  return true;
}

template <Kind kind>
void run(const Network& network, const Request& request, std::int64_t threads) {
  const Loan space(spaces);
  Gathering gathering(team, threads);
  Pass<kind>(network, request, gathering, *space).run();
}

}  // namespace
}  // namespace headlight

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
//
// Returns 0; 1 if an id or a length is outside the network's tables, 2 without memory: then nothing
// was written.
EXPORTED int headlight_encode(const headlight::Network* network, const std::int64_t* ids,
                              const std::int64_t* lengths, std::int64_t texts,
                              std::int64_t threads, float* logits, float* weights,
                              std::int64_t longest, const float* head_mask) noexcept {
  using namespace headlight;
  const Request request = {ids, lengths, texts, longest, logits, weights, head_mask};
  if (!is_in_range(*network, request)) return kOutOfRange;
  try {
    switch (static_cast<Kind>(network->kind)) {
      case Kind::kFloat32:
        run<Kind::kFloat32>(*network, request, threads);
        break;
      case Kind::kBfloat16:
        run<Kind::kBfloat16>(*network, request, threads);
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

// The digest of the sources that this library was compiled from.
EXPORTED const char* headlight_sources() noexcept { return HEADLIGHT_SOURCES; }

#endif
