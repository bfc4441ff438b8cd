// Finds the sets of instructions that this processor has, of those that were compiled.
#include <cstring>

#include "encoder.h"

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#endif

#if defined(_WIN32)
#define EXPORTED extern "C" __declspec(dllexport)
#else
#define EXPORTED extern "C" __attribute__((visibility("default")))
#endif

#define SET(name)                  \
  namespace headlight::name {      \
  extern const InstructionSet set; \
  }
HEADLIGHT_SETS
#undef SET

namespace headlight {
namespace {

#if defined(__x86_64__)

bool has(const char* name) {
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  if (std::strcmp(name, "avx2") == 0) return avx2;
  if (std::strcmp(name, "avx512") == 0) return avx512;
  if (std::strcmp(name, "avx512_vnni") == 0) return avx512 && __builtin_cpu_supports("avx512vnni");
  return avx2 && __builtin_cpu_supports("avxvnni");
}

bool has_bfloat16() { return __builtin_cpu_supports("avx512bf16"); }

#else

#if defined(__APPLE__)

bool has_feature(const char* name) {
  int value = 0;
  std::size_t size = sizeof value;
  return sysctlbyname(name, &value, &size, nullptr, 0) == 0 && value != 0;
}
bool has_dotprod() { return has_feature("hw.optional.arm.FEAT_DotProd"); }
bool has_bfloat16() { return has_feature("hw.optional.arm.FEAT_BF16"); }
bool has_i8mm() { return has_feature("hw.optional.arm.FEAT_I8MM"); }

#else

// Bits of Linux on Arm: HWCAP_ASIMDDP, HWCAP2_I8MM, HWCAP2_BF16.
bool has_dotprod() { return getauxval(AT_HWCAP) >> 20 & 1; }
bool has_i8mm() { return getauxval(AT_HWCAP2) >> 13 & 1; }
bool has_bfloat16() { return getauxval(AT_HWCAP2) >> 14 & 1; }

#endif

bool has(const char* name) {
  if (std::strcmp(name, "neon_i8mm") == 0) return has_i8mm() && has_bfloat16() && has_dotprod();
  return std::strcmp(name, "neon_dotprod") != 0 || has_dotprod();
}

#endif

#define SET(name) &name::set,
const InstructionSet* const kSets[] = {HEADLIGHT_SETS};
#undef SET

}  // namespace
}  // namespace headlight

// Writes the set of a number, the fastest first, without the kinds that this processor has not.
// Returns whether there is one.
EXPORTED int headlight_instruction_set(std::int64_t number, headlight::InstructionSet* out) noexcept {
  using namespace headlight;
  for (const InstructionSet* set : kSets) {
    if (!has(set->name) || number-- > 0) continue;
    *out = *set;
    if (!has_bfloat16()) out->kinds &= ~(std::int64_t{1} << static_cast<int>(Kind::kBfloat16));
    return 1;
  }
  return 0;
}

// The digest of the sources that this library was compiled from.
EXPORTED const char* headlight_sources() noexcept { return HEADLIGHT_SOURCES; }
