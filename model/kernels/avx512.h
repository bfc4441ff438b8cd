// Wraps the vectors and the products of AVX-512 (F, BW, DQ, VL), with VNNI and bfloat16 if compiled.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "encoder.h"

namespace headlight::HEADLIGHT_SET {

using Floats = __m512;
using Integers = __m512i;
constexpr Index kLanes = 16;
constexpr Index kPanel = 32;
constexpr int most_rows(Kind) { return 12; }
constexpr int kByteOffset = 0;

inline __mmask16 first(Index count) {
  return count >= kLanes ? 0xffff : count <= 0 ? 0 : static_cast<__mmask16>((1u << count) - 1);
}

inline Floats broadcast(float number) { return _mm512_set1_ps(number); }
inline Floats load(const float* from) { return _mm512_loadu_ps(from); }
inline Floats load(const float* from, Index count) {
  return _mm512_maskz_loadu_ps(first(count), from);
}
inline void store(float* to, Floats x) { _mm512_storeu_ps(to, x); }
inline void store(float* to, Index count, Floats x) { _mm512_mask_storeu_ps(to, first(count), x); }
inline Floats select_first(Index count, Floats x, Floats rest) {
  return _mm512_mask_blend_ps(first(count), rest, x);
}

inline Floats multiply_add(Floats x, Floats y, Floats z) { return _mm512_fmadd_ps(x, y, z); }
inline Floats negative_multiply_add(Floats x, Floats y, Floats z) { return _mm512_fnmadd_ps(x, y, z); }
inline Floats minimum(Floats x, Floats y) { return _mm512_min_ps(x, y); }
inline Floats maximum(Floats x, Floats y) { return _mm512_max_ps(x, y); }
inline Floats round_to_nearest(Floats x) {
  return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
inline Floats scale_by_power(Floats x, Floats n) { return _mm512_scalef_ps(x, n); }

// Writes `count` numbers from 0 to 255 without their fractions.
inline void store_bytes(std::uint8_t* to, Index count, Floats x) {
  _mm_mask_storeu_epi8(to, first(count), _mm512_cvtusepi32_epi8(_mm512_cvttps_epu32(x)));
}

inline Integers load_words(const std::uint32_t* from) { return _mm512_loadu_si512(from); }
inline Integers broadcast_word(std::uint32_t word) { return _mm512_set1_epi32(static_cast<int>(word)); }
inline Floats as_floats(Integers words) { return _mm512_castsi512_ps(words); }
inline Floats to_floats(Integers sums) { return _mm512_cvtepi32_ps(sums); }

// By name: for the intrinsics, compilers copy all sums from register to register.
#if defined(__AVX512VNNI__)
inline Integers add_bytes(Integers sum, Integers row, Integers column) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(row), "v"(column));
  return sum;
}
#else
// A sum of two products has 16 bits, which suffice as the weights are scaled.
inline Integers add_bytes(Integers sum, Integers row, Integers column) {
  const Integers pairs = _mm512_maddubs_epi16(row, column);
  return _mm512_add_epi32(sum, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}
#endif

#if defined(__AVX512BF16__)
constexpr bool kHasBfloat16 = true;
inline Floats add_bfloat16(Floats sum, Integers row, Integers column) {
  return _mm512_dpbf16_ps(sum, (__m512bh)row, (__m512bh)column);
}
inline void store_bfloat16(std::uint16_t* to, Index count, Floats x) {
  _mm256_mask_storeu_epi16(to, first(count), (__m256i)_mm512_cvtneps_pbh(x));
}
#else
constexpr bool kHasBfloat16 = false;
#endif

}  // namespace headlight::HEADLIGHT_SET
