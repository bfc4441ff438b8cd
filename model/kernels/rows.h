// Computes along one row: softmax, layer norm, and the factors of the next product.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "encoder.h"
#include "panels.h"
#include "product.h"

namespace headlight {

// Turns scores into weights: the softmax of `scale` times the first `count` of them.
inline void softmax(float* scores, long count, float scale) {
  __m512 most = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
  const __m512 scales = _mm512_set1_ps(scale);
  for (long at = 0; at < count; at += kLanes) {
    const __mmask16 mask = first(count - at);
    const __m512 scaled = _mm512_mul_ps(scales, _mm512_maskz_loadu_ps(mask, scores + at));
    most = _mm512_mask_max_ps(most, mask, most, scaled);
    _mm512_mask_storeu_ps(scores + at, mask, scaled);
  }
  const __m512 largest = _mm512_set1_ps(_mm512_reduce_max_ps(most));
  __m512 sum = _mm512_setzero_ps();
  for (long at = 0; at < count; at += kLanes) {
    const __mmask16 mask = first(count - at);
    const __m512 power =
        exponential(_mm512_sub_ps(_mm512_maskz_loadu_ps(mask, scores + at), largest));
    sum = _mm512_mask_add_ps(sum, mask, sum, power);
    _mm512_mask_storeu_ps(scores + at, mask, power);
  }
  const __m512 share = _mm512_set1_ps(1.0f / _mm512_reduce_add_ps(sum));
  for (long at = 0; at < count; at += kLanes) {
    const __mmask16 mask = first(count - at);
    _mm512_mask_storeu_ps(scores + at, mask,
                          _mm512_mul_ps(share, _mm512_maskz_loadu_ps(mask, scores + at)));
  }
}

// Layer normalisation (Ba, Kiros and Hinton 2016).
inline void normalize(float* row, long size, const Norm& norm, float eps) {
  __m512 sum = _mm512_setzero_ps();
  for (long at = 0; at < size; at += kLanes) {
    sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(first(size - at), row + at));
  }
  const __m512 mean = _mm512_set1_ps(_mm512_reduce_add_ps(sum) / size);
  __m512 squares = _mm512_setzero_ps();
  for (long at = 0; at < size; at += kLanes) {
    const __mmask16 mask = first(size - at);
    const __m512 rest = _mm512_maskz_sub_ps(mask, _mm512_maskz_loadu_ps(mask, row + at), mean);
    squares = _mm512_fmadd_ps(rest, rest, squares);
  }
  const float variance = _mm512_reduce_add_ps(squares) / size;
  // One over infinity is 0, and every number of such a row would silently become the bias.
  const bool is_finite = variance <= std::numeric_limits<float>::max();
  const __m512 scale = _mm512_set1_ps(is_finite ? 1.0f / std::sqrt(variance + eps)
                                                : std::numeric_limits<float>::quiet_NaN());
  for (long at = 0; at < size; at += kLanes) {
    const __mmask16 mask = first(size - at);
    const __m512 rest = _mm512_sub_ps(_mm512_maskz_loadu_ps(mask, row + at), mean);
    const __m512 scaled = _mm512_mul_ps(rest, scale);
    const __m512 weight = _mm512_maskz_loadu_ps(mask, norm.weight + at);
    const __m512 bias = _mm512_maskz_loadu_ps(mask, norm.bias + at);
    _mm512_mask_storeu_ps(row + at, mask, _mm512_fmadd_ps(scaled, weight, bias));
  }
}

// Rows of factors. For int8, a number is about step * byte + least, with a step and a least number
// for each row.
struct Factors {
  std::uint32_t* words;
  long stride;  // words from one row to the next
  float* steps;
  float* leasts;
  Rows rows() const { return {words, stride}; }
};

// Quantizes a row to bytes that span from its least to its largest number (Dettmers et al. 2022).
inline void quantize(const float* row, long size, std::uint8_t* bytes, float& step, float& least) {
  constexpr float kSmallestSpan = 1e-12f;
  const float infinity = std::numeric_limits<float>::infinity();
  __m512 low = _mm512_set1_ps(infinity), high = _mm512_set1_ps(-infinity);
  __mmask16 unordered = 0;
  for (long at = 0; at < size; at += kLanes) {
    const __mmask16 mask = first(size - at);
    const __m512 numbers = _mm512_maskz_loadu_ps(mask, row + at);
    low = _mm512_mask_min_ps(low, mask, low, numbers);
    high = _mm512_mask_max_ps(high, mask, high, numbers);
    unordered |= _mm512_cmp_ps_mask(numbers, numbers, _CMP_UNORD_Q);
  }
  least = _mm512_reduce_min_ps(low);
  step = std::fmax(_mm512_reduce_max_ps(high) - least, kSmallestSpan) / 255.0f;
  // Bytes cannot say that a number is none.
  if (unordered) step = std::numeric_limits<float>::quiet_NaN();
  // The half step turns truncation into rounding.
  const __m512 start = _mm512_set1_ps(least - 0.5f * step), width = _mm512_set1_ps(step);
  for (long at = 0; at < size; at += kLanes) {
    const __mmask16 mask = first(size - at);
    const __m512 numbers = _mm512_maskz_loadu_ps(mask, row + at);
    const __m512 places = _mm512_div_ps(_mm512_sub_ps(numbers, start), width);
    const __m128i narrow = _mm512_cvtusepi32_epi8(_mm512_cvttps_epu32(places));
    _mm_mask_storeu_epi8(bytes + at, mask, narrow);
  }
}

// Writes a row of numbers as factors.
template <Kind kind>
void write_factors(const float* numbers, long size, const Factors& factors, long row) {
  std::uint32_t* words = factors.words + row * factors.stride;
  if constexpr (kind == Kind::kFloat32) {
    std::memcpy(words, numbers, size * sizeof(float));
  } else if constexpr (kind == Kind::kBfloat16) {
    for (long at = 0; at < size; at += kPanel) {
      write_bfloat16(words, at, size, _mm512_maskz_loadu_ps(first(size - at), numbers + at),
                     _mm512_maskz_loadu_ps(first(size - at - kLanes), numbers + at + kLanes));
    }
  } else {
    quantize(numbers, size, reinterpret_cast<std::uint8_t*>(words), factors.steps[row],
             factors.leasts[row]);
  }
}

}  // namespace headlight
