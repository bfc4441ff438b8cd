// Multiplies rows of activations by packed weights.
//
// A word has four bytes: one float32, two bfloat16 or four int8 factors of one sum. Weights lie in
// panels of `kPanel` columns: for each word of the sum, the words of all columns side by side. A
// tile of a few rows and a panel's columns stays in registers for the whole sum.
//
// Every number is the same sum in the same order, whatever rows are computed beside its own.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

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

constexpr int kMostRows = 12;  // of any kind
constexpr int kVectors = kPanel / kLanes;

template <Kind kind>
using Sum = std::conditional_t<kind == Kind::kInt8, Integers, Floats>;

inline Floats to_floats(Floats sums) { return sums; }

template <Kind kind>
inline Sum<kind> add_products(Sum<kind> sum, Integers row, Integers column) {
  if constexpr (kind == Kind::kFloat32) {
    return multiply_add(as_floats(row), as_floats(column), sum);
  } else if constexpr (kind == Kind::kBfloat16) {
    return add_bfloat16(sum, row, column);
  } else {
    return add_bytes(sum, row, column);
  }
}

// Rows of words; `stride` is the number of words from one row to the next.
struct Rows {
  const std::uint32_t* words;
  Index stride;
};

inline const std::uint32_t* words_of(const float* numbers) {
  return reinterpret_cast<const std::uint32_t*>(numbers);
}

// A weight [columns, sum], packed: [panels, words, `kPanel`] words.
struct Weight {
  const std::uint32_t* words;
  Index length;   // words of a sum
  Index columns;  // without those that fill the last panel
  Index panels() const { return whole_panels(columns) / kPanel; }
  const std::uint32_t* panel(Index at) const { return words + at * length * kPanel; }
};

// The sums of each row of a tile.
struct alignas(64) Tile {
  float sums[kMostRows][kPanel];
};

// A function of its own: inlined, compilers copy the sums from register to register.
template <Kind kind, int rows>
__attribute__((noinline)) void multiply_tile(const std::uint32_t* words, Index stride,
                                             const std::uint32_t* panel, Index length, Tile& tile) {
  Sum<kind> sums[rows][kVectors];
#pragma GCC unroll 12
  for (int row = 0; row < rows; ++row) {
#pragma GCC unroll 4
    for (int at = 0; at < kVectors; ++at) sums[row][at] = Sum<kind>{};
  }
  for (Index word = 0; word < length; ++word, panel += kPanel) {
    Integers columns[kVectors];
#pragma GCC unroll 4
    for (int at = 0; at < kVectors; ++at) columns[at] = load_words(panel + at * kLanes);
#pragma GCC unroll 12
    for (int row = 0; row < rows; ++row) {
      const Integers factors = broadcast_word(words[row * stride + word]);
#pragma GCC unroll 4
      for (int at = 0; at < kVectors; ++at) {
        sums[row][at] = add_products<kind>(sums[row][at], factors, columns[at]);
      }
    }
  }
#pragma GCC unroll 12
  for (int row = 0; row < rows; ++row) {
#pragma GCC unroll 4
    for (int at = 0; at < kVectors; ++at) {
      store(tile.sums[row] + at * kLanes, to_floats(sums[row][at]));
    }
  }
}

using MultiplyTile = void (*)(const std::uint32_t*, Index, const std::uint32_t*, Index, Tile&);

template <Kind kind, int... counts>
inline MultiplyTile choose_tile(Index rows, std::integer_sequence<int, counts...>) {
  static constexpr MultiplyTile tiles[] = {&multiply_tile<kind, counts + 1>...};
  return tiles[rows - 1];
}

// Multiplies the rows from `begin` to `end` by one panel; `store` gets a row's number, the place of
// a block in the panel, and the block of sums.
template <Kind kind, class Store>
inline void multiply(Rows left, const std::uint32_t* panel, Index length, Index begin, Index end,
                     Store&& store) {
  constexpr int most = most_rows(kind);
  static_assert(most <= kMostRows);
  const Index count = end - begin;
  const Index tiles = (count + most - 1) / most;
  Tile tile;
  for (Index number = 0, row = begin; number < tiles; ++number) {
    // Tiles of equal size: one of a single row would read the whole panel for it.
    const Index next = begin + count * (number + 1) / tiles;
    const Index rows = next - row;
    choose_tile<kind>(rows, std::make_integer_sequence<int, most>{})(
        left.words + row * left.stride, left.stride, panel, length, tile);
    for (Index at = 0; at < rows; ++at) {
#pragma GCC unroll 2
      for (Index place = 0; place < kPanel; place += kBlock) {
        store(row + at, place, load_block(tile.sums[at] + place));
      }
    }
    row = next;
  }
}

}  // namespace headlight::HEADLIGHT_SET
