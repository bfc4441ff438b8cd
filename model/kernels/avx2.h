// Wraps the vectors and the products of AVX2 with FMA, with AVX-VNNI if compiled.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "encoder.h"

namespace headlight::HEADLIGHT_SET {

using Floats = __m256;
using Integers = __m256i;
constexpr Index kLanes = 8;
constexpr Index kPanel = 16;
constexpr int kByteOffset = 0;
constexpr bool kHasBfloat16 = false;

inline Integers first(Index count) {
  const __m256i places = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const Index most = count < 0 ? 0 : count < kLanes ? count : kLanes;
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(most)), places);
}

inline Floats broadcast(float number) { return _mm256_set1_ps(number); }
inline Floats load(const float* from) { return _mm256_loadu_ps(from); }
inline Floats load(const float* from, Index count) {
  return _mm256_maskload_ps(from, first(count));
}
inline void store(float* to, Floats x) { _mm256_storeu_ps(to, x); }
inline void store(float* to, Index count, Floats x) { _mm256_maskstore_ps(to, first(count), x); }
inline Floats select_first(Index count, Floats x, Floats rest) {
  return _mm256_blendv_ps(rest, x, _mm256_castsi256_ps(first(count)));
}

inline Floats multiply_add(Floats x, Floats y, Floats z) { return _mm256_fmadd_ps(x, y, z); }
inline Floats negative_multiply_add(Floats x, Floats y, Floats z) { return _mm256_fnmadd_ps(x, y, z); }
inline Floats minimum(Floats x, Floats y) { return _mm256_min_ps(x, y); }
inline Floats maximum(Floats x, Floats y) { return _mm256_max_ps(x, y); }
inline Floats round_to_nearest(Floats x) {
  return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
inline Floats scale_by_power(Floats x, Floats n) {
  const __m256i exponent = _mm256_slli_epi32(_mm256_cvtps_epi32(n + broadcast(127.0f)), 23);
  return x * _mm256_castsi256_ps(exponent);
}

// Writes `count` numbers from 0 to 255 without their fractions.
inline void store_bytes(std::uint8_t* to, Index count, Floats x) {
  const __m256i numbers = _mm256_cvttps_epi32(x);
  const __m128i halves = _mm_packus_epi32(_mm256_castsi256_si128(numbers),
                                          _mm256_extracti128_si256(numbers, 1));
  const __m128i bytes = _mm_packus_epi16(halves, halves);
  if (count >= kLanes) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to), bytes);
  } else if (count > 0) {
    std::memcpy(to, &bytes, count);
  }
}

inline Integers load_words(const std::uint32_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}
inline Integers broadcast_word(std::uint32_t word) { return _mm256_set1_epi32(static_cast<int>(word)); }
inline Floats as_floats(Integers words) { return _mm256_castsi256_ps(words); }
inline Floats to_floats(Integers sums) { return _mm256_cvtepi32_ps(sums); }

#if defined(__AVXVNNI__)
constexpr int most_rows(Kind) { return 6; }
inline Integers add_bytes(Integers sum, Integers row, Integers column) {
  asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(row), "x"(column));
  return sum;
}
#else
// Products of bytes need a register for what they add up.
constexpr int most_rows(Kind kind) { return kind == Kind::kInt8 ? 4 : 6; }
// A sum of two products has 16 bits, which suffice as the weights are scaled.
inline Integers add_bytes(Integers sum, Integers row, Integers column) {
  const Integers pairs = _mm256_maddubs_epi16(row, column);
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
#endif

}  // namespace headlight::HEADLIGHT_SET
