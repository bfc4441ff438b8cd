// Writes 32 neighbouring numbers of a row, and packs matrices into panels of 32 columns.
#pragma once

#include <cstdint>

#include "vectors.h"

namespace headlight {

constexpr long kPanel = 2 * kLanes;

inline long whole_panels(long columns) { return (columns + kPanel - 1) / kPanel * kPanel; }

// Writes the two halves of a panel to the columns of a row that has `columns` in all.
inline void write(float* row, long column, long columns, __m512 low, __m512 high) {
  _mm512_mask_storeu_ps(row + column, first(columns - column), low);
  _mm512_mask_storeu_ps(row + column + kLanes, first(columns - column - kLanes), high);
}

// Adds the two halves of a panel to a row.
inline void add(float* row, long column, long columns, __m512 low, __m512 high) {
  const __mmask16 left = first(columns - column), right = first(columns - column - kLanes);
  low = _mm512_add_ps(low, _mm512_maskz_loadu_ps(left, row + column));
  high = _mm512_add_ps(high, _mm512_maskz_loadu_ps(right, row + column + kLanes));
  write(row, column, columns, low, high);
}

// Writes the two halves of a panel to a row of bfloat16.
inline void write_bfloat16(void* row, long column, long columns, __m512 low, __m512 high) {
  const __m512bh both = _mm512_cvtne2ps_pbh(high, low);
  const long count = columns - column;
  const __mmask32 mask = count >= kPanel ? ~__mmask32{0} : (__mmask32{1} << count) - 1;
  _mm512_mask_storeu_epi16(static_cast<std::uint16_t*>(row) + column, mask, (__m512i)both);
}

// Packs a matrix [length, columns]; columns past the end are 0.
inline void pack(const float* values, long stride, long length, long columns, float* panels) {
  for (long column = 0; column < whole_panels(columns); column += kLanes) {
    float* panel = panels + column / kPanel * length * kPanel + column % kPanel;
    const __mmask16 mask = first(columns - column);
    for (long at = 0; at < length; ++at) {
      _mm512_storeu_ps(panel + at * kPanel,
                       _mm512_maskz_loadu_ps(mask, values + at * stride + column));
    }
  }
}

// Packs the transpose of a matrix [columns, length].
inline void pack_transposed(const float* keys, long stride, long length, long columns,
                            float* panels) {
  for (long column = 0; column < whole_panels(columns); ++column) {
    float* panel = panels + column / kPanel * length * kPanel + column % kPanel;
    for (long at = 0; at < length; ++at) {
      panel[at * kPanel] = column < columns ? keys[column * stride + at] : 0.0f;
    }
  }
}

}  // namespace headlight
