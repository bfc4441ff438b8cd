// Multiplies rows of activations by packed weights.
//
// A word has four bytes: one float32, two bfloat16 or four int8 factors of one sum. Weights lie in
// panels of 32 columns: for each word of the sum, the words of the 32 columns side by side. A tile
// of up to 12 rows and 32 columns stays in registers for the whole sum.
//
// Every number is the same sum in the same order, whatever rows are computed beside its own.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

#include "panels.h"

namespace headlight {

constexpr int kMostRows = 12;

enum class Kind { kFloat32, kBfloat16, kInt8 };

template <Kind>
struct Sum {
  using Type = __m512;
  static Type zero() { return _mm512_setzero_ps(); }
  static __m512 to_float(Type sum) { return sum; }
};
template <>
struct Sum<Kind::kInt8> {
  using Type = __m512i;
  static Type zero() { return _mm512_setzero_si512(); }
  static __m512 to_float(Type sum) { return _mm512_cvtepi32_ps(sum); }
};

template <Kind kind>
inline typename Sum<kind>::Type add_products(typename Sum<kind>::Type sum, __m512i row,
                                             __m512i column) {
  if constexpr (kind == Kind::kFloat32) {
    return _mm512_fmadd_ps(_mm512_castsi512_ps(row), _mm512_castsi512_ps(column), sum);
  } else if constexpr (kind == Kind::kBfloat16) {
    return _mm512_dpbf16_ps(sum, (__m512bh)row, (__m512bh)column);
  } else {
    // By name: for the intrinsic, compilers copy all sums from register to register.
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(row), "v"(column));
    return sum;
  }
}

// Rows of words; `stride` is the number of words from one row to the next.
struct Rows {
  const std::uint32_t* words;
  long stride;
};

inline const std::uint32_t* words_of(const float* numbers) {
  return reinterpret_cast<const std::uint32_t*>(numbers);
}

// A weight [columns, sum], packed: [panels, words, 32] words.
struct Weight {
  const std::uint32_t* words;
  long length;   // words of a sum
  long columns;  // without those that fill the last panel
  long panels() const { return (columns + kPanel - 1) / kPanel; }
  const std::uint32_t* panel(long at) const { return words + at * length * kPanel; }
};

// The 32 sums of each row of a tile.
struct alignas(64) Tile {
  float sums[kMostRows][kPanel];
};

// A function of its own: inlined, compilers copy the sums from register to register.
template <Kind kind, int rows>
__attribute__((noinline)) void multiply_tile(const std::uint32_t* words, long stride,
                                             const std::uint32_t* panel, long length, Tile& tile) {
  typename Sum<kind>::Type low[rows], high[rows];
#pragma GCC unroll 12
  for (int row = 0; row < rows; ++row) low[row] = high[row] = Sum<kind>::zero();
  for (long at = 0; at < length; ++at, panel += kPanel) {
    const __m512i low_columns = _mm512_loadu_si512(panel);
    const __m512i high_columns = _mm512_loadu_si512(panel + kLanes);
#pragma GCC unroll 12
    for (int row = 0; row < rows; ++row) {
      std::uint32_t word;
      std::memcpy(&word, words + row * stride + at, sizeof word);
      const __m512i factor = _mm512_set1_epi32(static_cast<int>(word));
      low[row] = add_products<kind>(low[row], factor, low_columns);
      high[row] = add_products<kind>(high[row], factor, high_columns);
    }
  }
#pragma GCC unroll 12
  for (int row = 0; row < rows; ++row) {
    _mm512_store_ps(tile.sums[row], Sum<kind>::to_float(low[row]));
    _mm512_store_ps(tile.sums[row] + kLanes, Sum<kind>::to_float(high[row]));
  }
}

using MultiplyTile = void (*)(const std::uint32_t*, long, const std::uint32_t*, long, Tile&);

template <Kind kind, int... counts>
inline MultiplyTile choose_tile(long rows, std::integer_sequence<int, counts...>) {
  static constexpr MultiplyTile tiles[] = {&multiply_tile<kind, counts + 1>...};
  return tiles[rows - 1];
}

// Multiplies the rows from `begin` to `end` by one panel; `store` gets a row's number and its 32 sums.
template <Kind kind, class Store>
inline void multiply(Rows left, const std::uint32_t* panel, long length, long begin, long end,
                     Store&& store) {
  const long count = end - begin;
  const long tiles = (count + kMostRows - 1) / kMostRows;
  Tile tile;
  for (long number = 0, row = begin; number < tiles; ++number) {
    // Tiles of equal size: one of a single row would read the whole panel for it.
    const long next = begin + count * (number + 1) / tiles;
    const long rows = next - row;
    choose_tile<kind>(rows, std::make_integer_sequence<int, kMostRows>{})(
        left.words + row * left.stride, left.stride, panel, length, tile);
    for (long at = 0; at < rows; ++at) {
      store(row + at, _mm512_load_ps(tile.sums[at]), _mm512_load_ps(tile.sums[at] + kLanes));
    }
    row = next;
  }
}

}  // namespace headlight
