// Computes the attention of one head over the tokens of one text (Vaswani et al. 2017).
//
// Legend: T tokens of the text, S size of a head, D hidden size.
#pragma once

#include <algorithm>
#include <cmath>

#include "product.h"
#include "rows.h"

namespace headlight::HEADLIGHT_SET {

constexpr Index kQueries = 12;  // whose scores are in scratch at once

struct Head {
  const float *queries, *keys, *values;  // [T, S]
  Index stride;                           // from one token to the next
  Index tokens, size;
};

// Numbers of scratch that `attend` needs.
inline Index scratch_of(Index tokens, Index size) {
  const Index columns = whole_panels(tokens);
  return columns * size + tokens * whole_panels(size) + kQueries * columns;
}

// Computes the context of every token, [T, S], whose tokens are `context_stride` apart; without
// `context` the weights alone. `keep` gets the number of a query and its T weights.
template <class Keep>
void attend(const Head& head, float* scratch, float* context, Index context_stride, Keep&& keep) {
  const Index tokens = head.tokens, size = head.size, columns = whole_panels(tokens);
  float* keys = scratch;
  float* values = keys + columns * size;
  float* scores = values + tokens * whole_panels(size);
  pack_transposed(head.keys, head.stride, size, tokens, keys);
  if (context) pack(head.values, head.stride, tokens, size, values);
  const float scale = 1.0f / std::sqrt(static_cast<float>(size));
  for (Index start = 0; start < tokens; start += kQueries) {
    const Index rows = std::min<Index>(tokens - start, kQueries);
    const Rows queries = {words_of(head.queries + start * head.stride), head.stride};
    for (Index column = 0; column < columns; column += kPanel) {
      multiply<Kind::kFloat32>(queries, words_of(keys + column * size), size, 0, rows,
                               [&](Index row, Index place, const Block& sums) {
                                 store_block(scores + row * columns + column + place, sums);
                               });
    }
    for (Index row = 0; row < rows; ++row) {
      softmax(scores + row * columns, tokens, scale);
      keep(start + row, scores + row * columns);
    }
    if (!context) continue;
    for (Index column = 0; column < size; column += kPanel) {
      multiply<Kind::kFloat32>({words_of(scores), columns}, words_of(values + column * tokens),
                               tokens, 0, rows, [&](Index row, Index place, const Block& sums) {
                                 float* out = context + (start + row) * context_stride;
                                 const Index at = column + place;
                                 store_block(out + at, sums, size - at);
                               });
    }
  }
}

// Replaces a query over states by the mean of the states that it chooses.
//
// Args:
//   states: [T, D].
//   query: [D].
//   weights: gets the weights of the mean, [T].
inline void average(const float* states, Index tokens, Index size, float* query, float* weights) {
  for (Index token = 0; token < tokens; ++token) {
    Block sum = block_of(0.0f);
    for (Index at = 0; at < size; at += kBlock) {
      const Block numbers = load_block(states + token * size + at, size - at);
      sum = multiply_add(load_block(query + at, size - at), numbers, sum);
    }
    weights[token] = sum_of(sum);
  }
  softmax(weights, tokens, 1.0f);
  for (Index at = 0; at < size; at += kBlock) {
    Block sum = block_of(0.0f);
    for (Index token = 0; token < tokens; ++token) {
      const Block numbers = load_block(states + token * size + at, size - at);
      sum = multiply_add(block_of(weights[token]), numbers, sum);
    }
    store_block(query + at, sum, size - at);
  }
}

}  // namespace headlight::HEADLIGHT_SET
