// Computes the attention of one head over the tokens of one text (Vaswani et al. 2017).
//
// Legend: T tokens of the text, S size of a head, D hidden size.
#pragma once

#include <algorithm>
#include <cmath>

#include "product.h"
#include "rows.h"

namespace headlight {

struct Head {
  const float *queries, *keys, *values;  // [T, S]
  long stride;                           // from one token to the next
  long tokens, size;
};

// Numbers of scratch that `attend` needs.
inline long scratch_of(long tokens, long size) {
  const long columns = whole_panels(tokens);
  return columns * size + tokens * whole_panels(size) + kMostRows * columns;
}

// Computes the context of every token, [T, S], whose tokens are `context_stride` apart; without
// `context` the weights alone. `keep` gets the number of a query and its T weights.
template <class Keep>
void attend(const Head& head, float* scratch, float* context, long context_stride, Keep&& keep) {
  const long tokens = head.tokens, size = head.size, columns = whole_panels(tokens);
  float* keys = scratch;
  float* values = keys + columns * size;
  float* scores = values + tokens * whole_panels(size);
  pack_transposed(head.keys, head.stride, size, tokens, keys);
  if (context) pack(head.values, head.stride, tokens, size, values);
  const float scale = 1.0f / std::sqrt(static_cast<float>(size));
  for (long start = 0; start < tokens; start += kMostRows) {
    const long rows = std::min<long>(tokens - start, kMostRows);
    const Rows queries = {words_of(head.queries + start * head.stride), head.stride};
    for (long column = 0; column < columns; column += kPanel) {
      multiply<Kind::kFloat32>(queries, words_of(keys + column * size), size, 0, rows,
                               [&](long row, __m512 low, __m512 high) {
                                 write(scores + row * columns, column, columns, low, high);
                               });
    }
    for (long row = 0; row < rows; ++row) {
      softmax(scores + row * columns, tokens, scale);
      keep(start + row, scores + row * columns);
    }
    if (!context) continue;
    for (long column = 0; column < size; column += kPanel) {
      multiply<Kind::kFloat32>({words_of(scores), columns}, words_of(values + column * tokens),
                               tokens, 0, rows, [&](long row, __m512 low, __m512 high) {
                                 float* out = context + (start + row) * context_stride;
                                 write(out, column, size, low, high);
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
inline void average(const float* states, long tokens, long size, float* query, float* weights) {
  for (long token = 0; token < tokens; ++token) {
    __m512 sum = _mm512_setzero_ps();
    for (long at = 0; at < size; at += kLanes) {
      const __mmask16 mask = first(size - at);
      sum = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(mask, query + at),
                            _mm512_maskz_loadu_ps(mask, states + token * size + at), sum);
    }
    weights[token] = _mm512_reduce_add_ps(sum);
  }
  softmax(weights, tokens, 1.0f);
  for (long at = 0; at < size; at += kLanes) {
    const __mmask16 mask = first(size - at);
    __m512 sum = _mm512_setzero_ps();
    for (long token = 0; token < tokens; ++token) {
      sum = _mm512_fmadd_ps(_mm512_set1_ps(weights[token]),
                            _mm512_maskz_loadu_ps(mask, states + token * size + at), sum);
    }
    _mm512_mask_storeu_ps(query + at, mask, sum);
  }
}

}  // namespace headlight
