// Packs matrices into panels of `kPanel` columns.
#pragma once

#include "vectors.h"

namespace headlight::HEADLIGHT_SET {

inline Index whole_panels(Index columns) { return (columns + kPanel - 1) / kPanel * kPanel; }

// Packs a matrix [length, columns]; columns past the end are 0.
inline void pack(const float* values, Index stride, Index length, Index columns, float* panels) {
  for (Index column = 0; column < whole_panels(columns); column += kBlock) {
    float* panel = panels + column / kPanel * length * kPanel + column % kPanel;
    for (Index at = 0; at < length; ++at) {
      store_block(panel + at * kPanel, load_block(values + at * stride + column, columns - column));
    }
  }
}

// Packs the transpose of a matrix [columns, length].
inline void pack_transposed(const float* keys, Index stride, Index length, Index columns,
                            float* panels) {
  for (Index column = 0; column < whole_panels(columns); ++column) {
    float* panel = panels + column / kPanel * length * kPanel + column % kPanel;
    for (Index at = 0; at < length; ++at) {
      panel[at * kPanel] = column < columns ? keys[column * stride + at] : 0.0f;
    }
  }
}

}  // namespace headlight::HEADLIGHT_SET
