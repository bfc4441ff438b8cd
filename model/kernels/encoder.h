// The parameters of an encoder, as the program that loads this library lays them out.
//
// Legend: D hidden size, H heads, F intermediate size, C classes, P positions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headlight {

using Index = std::ptrdiff_t;

// Goes up with every change of this file or of what its functions mean.
constexpr std::int64_t kVersion = 1;

// The factors of products.
enum class Kind { kFloat32, kBfloat16, kInt8 };

// A linear layer, packed as in product.h. Only int8 has scales, one for each column, and sums of
// the column's bytes times its scale.
struct Projection {
  const std::uint32_t* words;
  const float* bias;
  const float* scales;
  const float* sums;
  std::int64_t length;  // words of a sum
  std::int64_t columns;
};

struct Norm {
  const float* weight;
  const float* bias;
};

// `joined` are queries, keys and values [3 D, D]; in the last layer queries and keys [2 D, D].
struct Layer {
  Projection joined, output, intermediate, outer;
  Norm attention_norm, output_norm;
};

// The attention of the first token in the last layer, in float32. A score is q (W h + b), which is
// (q W) h + q b, and the softmax cancels q b. The mean of the values is the projection of the mean
// of the states. So no token needs a key or a value of its own.
struct FirstToken {
  Projection queries;                 // [D, D], divided by the root of D / H
  const std::uint32_t* keys;          // for each head a weight [D, D / H]
  const std::uint32_t* values;        // for each head a weight [D / H, D]
  const float* value_bias;            // [D]
  std::int64_t key_words, value_words;  // from one head to the next
};

struct Network {
  std::int64_t kind, activation, pooling, layers, hidden, heads, inner, classes, vocabulary;
  std::int64_t positions;
  double eps;
  const void* tokens;        // [vocabulary, D], float32 or float16
  std::int64_t half_tokens;  // whether they are float16
  const float* places;  // [P, D]
  Norm embedding_norm;
  const Layer* layer;
  FirstToken first;
  Projection pooler, classifier;  // float32
};

// A way to compute passes by one set of instructions, whose functions are in encode.cpp.
struct InstructionSet {
  const char* name;
  std::int64_t kinds;          // a bit for each kind that it computes
  std::int64_t panel_columns;  // in which weights are packed
  int (*encode)(const Network* network, const std::int64_t* ids, const std::int64_t* lengths,
                std::int64_t texts, std::int64_t threads, float* logits, float* weights,
                std::int64_t longest, const float* head_mask, float* states) noexcept;
};

}  // namespace headlight
