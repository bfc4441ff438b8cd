// Computes on blocks of 16 floats, whatever the width of a vector is.
//
// The numbers of a row are added in 16 partial sums, and these in one order. So a row of float32 has
// the same sum on every set of instructions.
#pragma once

#if defined(__AVX512F__)
#include "avx512.h"
#elif defined(__AVX2__)
#include "avx2.h"
#else
#include "neon.h"
#endif

namespace headlight::HEADLIGHT_SET {

// Only a set with `kHasBfloat16` defines it.
void store_bfloat16(std::uint16_t* to, Index count, Floats x);

constexpr Index kBlock = 16;
constexpr int kParts = kBlock / kLanes;

struct Block {
  Floats part[kParts];
};

template <class Work, class... Blocks>
inline Block each(Work work, const Blocks&... blocks) {
  Block found;
#pragma GCC unroll 4
  for (int at = 0; at < kParts; ++at) found.part[at] = work(blocks.part[at]...);
  return found;
}

inline Block operator+(const Block& x, const Block& y) {
  return each([](Floats x, Floats y) { return x + y; }, x, y);
}
inline Block operator-(const Block& x, const Block& y) {
  return each([](Floats x, Floats y) { return x - y; }, x, y);
}
inline Block operator*(const Block& x, const Block& y) {
  return each([](Floats x, Floats y) { return x * y; }, x, y);
}

// x * y + z, rounded once.
inline Block multiply_add(const Block& x, const Block& y, const Block& z) {
  return each([](Floats x, Floats y, Floats z) { return multiply_add(x, y, z); }, x, y, z);
}
// Of two numbers the second if one is not a number.
inline Block minimum(const Block& x, const Block& y) {
  return each([](Floats x, Floats y) { return minimum(x, y); }, x, y);
}
inline Block maximum(const Block& x, const Block& y) {
  return each([](Floats x, Floats y) { return maximum(x, y); }, x, y);
}

inline Block block_of(float number) {
  Block found;
#pragma GCC unroll 4
  for (int at = 0; at < kParts; ++at) found.part[at] = broadcast(number);
  return found;
}

// Loads the first `count` numbers of a block, and zeros.
inline Block load_block(const float* from, Index count = kBlock) {
  Block found;
#pragma GCC unroll 4
  for (int at = 0; at < kParts; ++at) {
    const Index place = at * kLanes;
    found.part[at] = count >= kBlock ? load(from + place) : load(from + place, count - place);
  }
  return found;
}

// Stores the first `count` numbers of a block.
inline void store_block(float* to, const Block& x, Index count = kBlock) {
#pragma GCC unroll 4
  for (int at = 0; at < kParts; ++at) {
    const Index place = at * kLanes;
    if (count >= kBlock) {
      store(to + place, x.part[at]);
    } else {
      store(to + place, count - place, x.part[at]);
    }
  }
}

// Replaces all but the first `count` numbers of a block.
inline Block select_first(Index count, const Block& x, float rest) {
  if (count >= kBlock) return x;
  Block found;
#pragma GCC unroll 4
  for (int at = 0; at < kParts; ++at) {
    found.part[at] = select_first(count - at * kLanes, x.part[at], broadcast(rest));
  }
  return found;
}

// Joins the 16 numbers of a block: each of the first half with one of the second, and so on.
template <class Join, class Vector = Floats>
inline float reduce(const Block& x, Join join) {
  using Four = float __attribute__((vector_size(16)));
  constexpr int parts = kBlock * sizeof(float) / sizeof(Vector);
  const Vector* part = x.part;
  Four four;
  if constexpr (parts == 4) {
    four = (Four)join(join(part[0], part[parts - 2]), join(part[parts - 3], part[parts - 1]));
  } else {
    const auto eight = [&] {
      if constexpr (parts == 2) return join(part[0], part[parts - 1]);
      if constexpr (parts == 1) {
        return join(__builtin_shufflevector(part[0], part[0], 0, 1, 2, 3, 4, 5, 6, 7),
                    __builtin_shufflevector(part[0], part[0], 8, 9, 10, 11, 12, 13, 14, 15));
      }
    }();
    four = join(__builtin_shufflevector(eight, eight, 0, 1, 2, 3),
                __builtin_shufflevector(eight, eight, 4, 5, 6, 7));
  }
  return join(join(four[0], four[2]), join(four[1], four[3]));
}
inline float sum_of(const Block& x) {
  return reduce(x, [](auto x, auto y) { return x + y; });
}
inline float largest_of(const Block& x) {
  return reduce(x, [](auto x, auto y) { return x > y ? x : y; });
}
inline float smallest_of(const Block& x) {
  return reduce(x, [](auto x, auto y) { return x < y ? x : y; });
}

// Factors of the highest power first (Horner).
template <class... Factors>
inline Floats polynomial(Floats x, float first, Factors... rest) {
  Floats sum = broadcast(first);
  ((sum = multiply_add(sum, x, broadcast(rest))), ...);
  return sum;
}

// e^x within 2 units in the last place: 2^n times a polynomial of the rest (Cody and Waite 1980).
// A value that is not a number stays one.
inline Floats exponential(Floats x) {
  // The constant comes first: these instructions return the second operand if one is not a number.
  x = minimum(broadcast(88.0f), x);
  x = maximum(broadcast(-87.3f), x);
  const Floats n = round_to_nearest(x * broadcast(1.44269504088896341f));
  Floats r = negative_multiply_add(n, broadcast(0.693359375f), x);
  r = negative_multiply_add(n, broadcast(-2.12194440e-4f), r);
  const Floats power = polynomial(r, 1.0f / 5040, 1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f,
                                  1.0f, 1.0f);
  return scale_by_power(power, n);
}

// 1 / (1 + e^-x)
inline Floats sigmoid(Floats x) {
  return broadcast(1.0f) / (broadcast(1.0f) + exponential(broadcast(0.0f) - x));
}

// The error function of x / sqrt(2) within 4e-7: a rational function of x * x, fitted to |x| < 5.6.
inline Floats error_function(Floats x) {
  // The constant comes first, as in `exponential`.
  x = maximum(broadcast(-5.6f), minimum(broadcast(5.6f), x));
  const Floats square = x * x;
  const Floats above = polynomial(square, 4.34211209e-8f, 1.31810657e-5f, 3.80306097e-4f,
                                  9.61081218e-3f, 7.16939941e-2f, 7.97883809e-1f);
  const Floats below = polynomial(square, 1.18514924e-6f, 8.10101046e-5f, 2.00334238e-3f,
                                  2.9803846e-2f, 2.56517828e-1f, 1.0f);
  return x * above / below;
}

enum class Activation { kNone, kGelu, kGeluTanh, kRelu, kSilu, kTanh };

inline Floats activate(Activation activation, Floats x) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kGelu: {  // x times the normal distribution function (Hendrycks, Gimpel 2016)
      const Floats half = broadcast(0.5f) * x;
      return multiply_add(half, error_function(x), half);
    }
    case Activation::kGeluTanh: {  // the same, with section 2's approximation by a tangent
      const Floats inner = multiply_add(broadcast(0.0713548162726f), x * x, broadcast(1.5957691216057308f));
      return x * sigmoid(x * inner);
    }
    case Activation::kRelu:
      return maximum(broadcast(0.0f), x);
    case Activation::kSilu:
      return x * sigmoid(x);
    case Activation::kTanh:
      return multiply_add(broadcast(2.0f), sigmoid(broadcast(2.0f) * x), broadcast(-1.0f));
  }
  return x;
}

inline Block activate(Activation activation, const Block& x) {
  return each([activation](Floats x) { return activate(activation, x); }, x);
}

}  // namespace headlight::HEADLIGHT_SET
