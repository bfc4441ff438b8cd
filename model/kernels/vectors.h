// Computes exponentials and activations of 16 floats at once.
#pragma once

#include <immintrin.h>

namespace headlight {

constexpr long kLanes = 16;

inline __mmask16 first(long count) {
  return count >= kLanes ? 0xffff : count <= 0 ? 0 : static_cast<__mmask16>((1u << count) - 1);
}

// e^x within 2 units in the last place: 2^n times a polynomial of the rest (Cody and Waite 1980).
// A value that is not a number stays one.
inline __m512 exponential(__m512 x) {
  // The constant comes first: these instructions return the second operand if one is not a number.
  x = _mm512_min_ps(_mm512_set1_ps(88.7f), x);
  x = _mm512_max_ps(_mm512_set1_ps(-87.3f), x);
  const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504088896341f)),
                                        _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), r);
  __m512 p = _mm512_set1_ps(1.0f / 5040);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 720));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 120));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 24));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 6));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
  return _mm512_scalef_ps(p, n);
}

// 1 / (1 + e^-x)
inline __m512 sigmoid(__m512 x) {
  const __m512 one = _mm512_set1_ps(1.0f);
  const __m512 power = exponential(_mm512_sub_ps(_mm512_setzero_ps(), x));
  return _mm512_div_ps(one, _mm512_add_ps(one, power));
}

inline __m512 hyperbolic_tangent(__m512 x) {
  const __m512 two = _mm512_set1_ps(2.0f);
  return _mm512_fmsub_ps(two, sigmoid(_mm512_mul_ps(two, x)), _mm512_set1_ps(1.0f));
}

// The error function within 1.5e-7 (Abramowitz and Stegun 1964, formula 7.1.26).
inline __m512 error_function(__m512 x) {
  const __m512 one = _mm512_set1_ps(1.0f);
  const __m512 size = _mm512_abs_ps(x);
  const __m512 t = _mm512_div_ps(one, _mm512_fmadd_ps(_mm512_set1_ps(0.3275911f), size, one));
  __m512 p = _mm512_set1_ps(1.061405429f);
  p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(-1.453152027f));
  p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(1.421413741f));
  p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(-0.284496736f));
  p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(0.254829592f));
  const __m512 power = exponential(_mm512_sub_ps(_mm512_setzero_ps(), _mm512_mul_ps(x, x)));
  const __m512 found = _mm512_fnmadd_ps(_mm512_mul_ps(p, t), power, one);
  const __m512i sign = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(1 << 31));
  return _mm512_castsi512_ps(_mm512_or_si512(_mm512_castps_si512(found), sign));
}

enum class Activation { kNone, kGelu, kGeluTanh, kRelu, kSilu, kTanh };

inline __m512 activate(Activation activation, __m512 x) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kGelu: {  // x times the normal distribution function (Hendrycks, Gimpel 2016)
      const __m512 half = _mm512_mul_ps(_mm512_set1_ps(0.5f), x);
      const __m512 scaled = _mm512_mul_ps(_mm512_set1_ps(0.70710678118654752f), x);
      return _mm512_fmadd_ps(half, error_function(scaled), half);
    }
    case Activation::kGeluTanh: {  // the same, with section 2's approximation by a tangent
      const __m512 square = _mm512_mul_ps(x, x);
      const __m512 inner = _mm512_fmadd_ps(_mm512_set1_ps(0.0713548162726f), square,
                                           _mm512_set1_ps(1.5957691216057308f));
      return _mm512_mul_ps(x, sigmoid(_mm512_mul_ps(x, inner)));
    }
    case Activation::kRelu:
      return _mm512_max_ps(_mm512_setzero_ps(), x);
    case Activation::kSilu:
      return _mm512_mul_ps(x, sigmoid(x));
    case Activation::kTanh:
      return hyperbolic_tangent(x);
  }
  return x;
}

}  // namespace headlight
