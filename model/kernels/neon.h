// Wraps the vectors and the products of Arm's NEON, with products of bytes (dotprod, i8mm) and
// bfloat16 if compiled.
#pragma once

#include <arm_neon.h>

#include <cstdint>
#include <cstring>

#include "encoder.h"

namespace headlight::HEADLIGHT_SET {

using Floats = float32x4_t;
using Integers = int32x4_t;
constexpr Index kLanes = 4;
constexpr Index kPanel = 16;

inline std::size_t bytes_of(Index count, std::size_t size) {
  return count <= 0 ? 0 : (count < kLanes ? count : kLanes) * size;
}

inline Floats broadcast(float number) { return vdupq_n_f32(number); }
inline Floats load(const float* from) { return vld1q_f32(from); }
inline Floats load(const float* from, Index count) {
  float numbers[kLanes] = {};
  std::memcpy(numbers, from, bytes_of(count, sizeof *from));
  return vld1q_f32(numbers);
}
inline void store(float* to, Floats x) { vst1q_f32(to, x); }
inline void store(float* to, Index count, Floats x) {
  std::memcpy(to, &x, bytes_of(count, sizeof *to));
}
inline Floats select_first(Index count, Floats x, Floats rest) {
  const int32x4_t places = {0, 1, 2, 3};
  const int most = static_cast<int>(count < 0 ? 0 : count < kLanes ? count : kLanes);
  return vbslq_f32(vcltq_s32(places, vdupq_n_s32(most)), x, rest);
}

inline Floats multiply_add(Floats x, Floats y, Floats z) { return vfmaq_f32(z, x, y); }
inline Floats negative_multiply_add(Floats x, Floats y, Floats z) { return vfmsq_f32(z, x, y); }
inline Floats minimum(Floats x, Floats y) { return vminq_f32(x, y); }
inline Floats maximum(Floats x, Floats y) { return vmaxq_f32(x, y); }
inline Floats round_to_nearest(Floats x) { return vrndnq_f32(x); }
inline Floats scale_by_power(Floats x, Floats n) {
  const int32x4_t exponent = vshlq_n_s32(vcvtq_s32_f32(n + broadcast(127.0f)), 23);
  return x * vreinterpretq_f32_s32(exponent);
}

inline Integers load_words(const std::uint32_t* from) {
  return vreinterpretq_s32_u32(vld1q_u32(from));
}
inline Integers broadcast_word(std::uint32_t word) { return vdupq_n_s32(static_cast<int>(word)); }
inline Floats as_floats(Integers words) { return vreinterpretq_f32_s32(words); }
inline Floats to_floats(Integers sums) { return vcvtq_f32_s32(sums); }

inline int8x16_t bytes(Integers words) { return vreinterpretq_s8_s32(words); }

#if defined(__ARM_FEATURE_MATMUL_INT8)
constexpr int most_rows(Kind) { return 6; }
constexpr int kByteOffset = 0;
inline Integers add_bytes(Integers sum, Integers row, Integers column) {
  return vusdotq_s32(sum, vreinterpretq_u8_s32(row), bytes(column));
}
#else
// There is only a product of signed bytes, so the bytes of a row go from -128 to 127.
constexpr int kByteOffset = 128;
#if defined(__ARM_FEATURE_DOTPROD)
constexpr int most_rows(Kind) { return 6; }
inline Integers add_bytes(Integers sum, Integers row, Integers column) {
  return vdotq_s32(sum, bytes(row), bytes(column));
}
#else
constexpr int most_rows(Kind kind) { return kind == Kind::kInt8 ? 4 : 6; }
inline Integers add_bytes(Integers sum, Integers row, Integers column) {
  const int8x16_t x = bytes(row), y = bytes(column);
  const int32x4_t low = vpaddlq_s16(vmull_s8(vget_low_s8(x), vget_low_s8(y)));
  const int32x4_t high = vpaddlq_s16(vmull_high_s8(x, y));
  return vaddq_s32(sum, vpaddq_s32(low, high));
}
#endif
#endif

// Writes `count` numbers from 0 to 255 without their fractions, less the offset.
inline void store_bytes(std::uint8_t* to, Index count, Floats x) {
  const uint16x4_t halves = vqmovn_u32(vcvtq_u32_f32(x));
  const uint8x8_t found = veor_u8(vqmovn_u16(vcombine_u16(halves, halves)),
                                  vdup_n_u8(static_cast<std::uint8_t>(kByteOffset)));
  std::memcpy(to, &found, bytes_of(count, 1));
}

#if defined(__ARM_FEATURE_BF16)
constexpr bool kHasBfloat16 = true;
inline Floats add_bfloat16(Floats sum, Integers row, Integers column) {
  return vbfdotq_f32(sum, vreinterpretq_bf16_s32(row), vreinterpretq_bf16_s32(column));
}
inline void store_bfloat16(std::uint16_t* to, Index count, Floats x) {
  const bfloat16x4_t found = vcvt_bf16_f32(x);
  std::memcpy(to, &found, bytes_of(count, sizeof *to));
}
#else
constexpr bool kHasBfloat16 = false;
#endif

}  // namespace headlight::HEADLIGHT_SET
