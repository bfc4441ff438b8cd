// Finds the sets of instructions that this processor has, of those that were compiled.
#include <cstring>

#include "encoder.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__linux__)
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

// Not by `__builtin_cpu_supports`, which always says no in what zig links.
struct Features {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  Features(unsigned leaf, unsigned part) { __get_cpuid_count(leaf, part, &eax, &ebx, &ecx, &edx); }
};

// Whether the operating system keeps registers, which are bits of XCR0, for each thread.
bool keeps(unsigned registers) {
  if (!(Features(1, 0).ecx >> 27 & 1)) return false;
  unsigned low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & registers) == registers;
}

// Whether part 1 of leaf 7, which older processors have not, has a bit of EAX.
bool has_newer(int bit) {
  return Features(7, 0).eax >= 1 && (Features(7, 1).eax >> bit & 1);
}

bool has(const char* name) {
  const unsigned fma = Features(1, 0).ecx >> 12 & 1;
  const Features found(7, 0);
  const bool avx2 = keeps(0x06) && fma && (found.ebx >> 5 & 1);
  const unsigned wanted = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;  // F, DQ, BW, VL
  const bool avx512 = avx2 && keeps(0xe6) && (found.ebx & wanted) == wanted;
  if (std::strcmp(name, "avx2") == 0) return avx2;
  if (std::strcmp(name, "avx512") == 0) return avx512;
  if (std::strcmp(name, "avx512_vnni") == 0) return avx512 && (found.ecx >> 11 & 1);
  return std::strcmp(name, "avx2_vnni") == 0 && avx2 && has_newer(4);
}

bool has_bfloat16() { return has_newer(5); }

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
  if (std::strcmp(name, "neon_dotprod") == 0) return has_dotprod();
  return std::strcmp(name, "neon") == 0;
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

// Writes three numbers that a program of other sources would not expect.
EXPORTED void headlight_sizes(std::int64_t* out) noexcept {
  out[0] = sizeof(headlight::Network);
  out[1] = sizeof(headlight::InstructionSet);
  out[2] = headlight::kVersion;
}
