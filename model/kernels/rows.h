// Computes along one row: softmax, layer norm, and the factors of the next product.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "product.h"

namespace headlight::HEADLIGHT_SET {

// Widens a float16; exact, also below the normal numbers.
inline float from_half(std::uint16_t half) {
  const std::uint32_t scaled = (half & 0x7fffu) << 13;  // times 2^-112
  float value;
  std::memcpy(&value, &scaled, sizeof value);
  value *= 0x1p112f;
  return half & 0x8000u ? -value : value;
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();

// Turns scores into weights: the softmax of `scale` times the first `count` of them.
inline void softmax(float* scores, Index count, float scale) {
  Block most = block_of(-kInfinity);
  for (Index at = 0; at < count; at += kBlock) {
    const Block scaled = block_of(scale) * load_block(scores + at, count - at);
    most = maximum(most, select_first(count - at, scaled, -kInfinity));
    store_block(scores + at, scaled, count - at);
  }
  const Block largest = block_of(largest_of(most));
  Block sum = block_of(0.0f);
  for (Index at = 0; at < count; at += kBlock) {
    const Block power = each([](Floats x) { return exponential(x); },
                             load_block(scores + at, count - at) - largest);
    sum = sum + select_first(count - at, power, 0.0f);
    store_block(scores + at, power, count - at);
  }
  const Block share = block_of(1.0f / sum_of(sum));
  for (Index at = 0; at < count; at += kBlock) {
    store_block(scores + at, share * load_block(scores + at, count - at), count - at);
  }
}

// Layer normalisation (Ba, Kiros and Hinton 2016).
inline void normalize(float* row, Index size, const Norm& norm, float eps) {
  Block sum = block_of(0.0f);
  for (Index at = 0; at < size; at += kBlock) sum = sum + load_block(row + at, size - at);
  const Block mean = block_of(sum_of(sum) / size);
  Block squares = block_of(0.0f);
  for (Index at = 0; at < size; at += kBlock) {
    const Block rest = select_first(size - at, load_block(row + at, size - at) - mean, 0.0f);
    squares = multiply_add(rest, rest, squares);
  }
  const float variance = sum_of(squares) / size;
  // One over infinity is 0, and every number of such a row would silently become the bias.
  const bool is_finite = variance <= std::numeric_limits<float>::max();
  const Block scale = block_of(is_finite ? 1.0f / std::sqrt(variance + eps) : kNotANumber);
  for (Index at = 0; at < size; at += kBlock) {
    const Index count = size - at;
    const Block scaled = (load_block(row + at, count) - mean) * scale;
    const Block moved =
        multiply_add(scaled, load_block(norm.weight + at, count), load_block(norm.bias + at, count));
    store_block(row + at, moved, count);
  }
}

// Rows of factors. For int8, a number is about step * byte + least, with a step and a least number
// for each row.
struct Factors {
  std::uint32_t* words;
  Index stride;  // words from one row to the next
  float* steps;
  float* leasts;
  Rows rows() const { return {words, stride}; }
};

// Quantizes a row to bytes that span from its least to its largest number (Dettmers et al. 2022).
inline void quantize(const float* row, Index size, std::uint8_t* bytes, float& step, float& least) {
  constexpr float kSmallestSpan = 1e-12f;
  Block low = block_of(kInfinity), high = block_of(-kInfinity), none = block_of(0.0f);
  for (Index at = 0; at < size; at += kBlock) {
    const Block numbers = load_block(row + at, size - at);
    low = minimum(low, select_first(size - at, numbers, kInfinity));
    high = maximum(high, select_first(size - at, numbers, -kInfinity));
    none = multiply_add(numbers, block_of(0.0f), none);
  }
  least = smallest_of(low);
  const float span = largest_of(high) - least;
  step = (span > kSmallestSpan ? span : kSmallestSpan) / 255.0f;
  // Bytes cannot say that a number is none, or infinite.
  if (sum_of(none) != 0.0f) step = kNotANumber;
  // The half step turns truncation into rounding.
  const Block start = block_of(least - 0.5f * step), scale = block_of(1.0f / step);
  for (Index at = 0; at < size; at += kBlock) {
    const Block places = (load_block(row + at, size - at) - start) * scale;
#pragma GCC unroll 4
    for (int part = 0; part < kParts; ++part) {
      const Index place = at + part * kLanes;
      store_bytes(bytes + place, size - place, places.part[part]);
    }
  }
  least += kByteOffset * step;
}

// Stores the first `count` numbers of a block as factors, at a place of their row.
template <Kind kind>
inline void store_factors(std::uint32_t* words, Index place, const Block& x, Index count) {
  if constexpr (kind == Kind::kFloat32) {
    store_block(reinterpret_cast<float*>(words) + place, x, count);
  } else if constexpr (kHasBfloat16) {
    std::uint16_t* to = reinterpret_cast<std::uint16_t*>(words) + place;
#pragma GCC unroll 4
    for (int at = 0; at < kParts; ++at) {
      store_bfloat16(to + at * kLanes, count - at * kLanes, x.part[at]);
    }
  }
}

// Writes a row of numbers as factors.
template <Kind kind>
void write_factors(const float* numbers, Index size, const Factors& factors, Index row) {
  std::uint32_t* words = factors.words + row * factors.stride;
  if constexpr (kind == Kind::kInt8) {
    quantize(numbers, size, reinterpret_cast<std::uint8_t*>(words), factors.steps[row],
             factors.leasts[row]);
  } else {
    for (Index at = 0; at < size; at += kBlock) {
      store_factors<kind>(words, at, load_block(numbers + at, size - at), size - at);
    }
  }
}

}  // namespace headlight::HEADLIGHT_SET
