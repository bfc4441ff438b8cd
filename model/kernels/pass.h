// Computes one pass: from token ids to logits and attention weights.
//
// Legend: N tokens of all texts, D hidden size, H heads, F intermediate size.
//
// Texts go through a layer in groups that fit into the cache. Everything but the products of int8
// and bfloat16 factors is float32. No result depends on what other texts are in the pass, nor on
// the number of threads.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "attention.h"
#include "encoder.h"
#include "product.h"
#include "rows.h"
#include "team.h"
#include "workspace.h"

namespace headlight::HEADLIGHT_SET {

constexpr Index kGroupTokens = 128;
constexpr Index kRowsOfTask = 8;

// What is asked of a pass, and where its results go; see `headlight_encode`.
struct Request {
  const std::int64_t *ids, *lengths;
  Index texts, longest;
  float *logits, *weights;
  const float* head_mask;
  float* states;
};

// Texts whose tokens lie side by side, from `begin` to `end`.
struct Group {
  Index first_text = 0, last_text = 0, begin = 0, end = 0;
  Index tokens() const { return end - begin; }
};

template <Kind kind>
class Pass {
 public:
  // Takes all memory that the pass needs, so that nothing can fail once threads compute. Throws
  // std::bad_alloc.
  Pass(const Network& network, const Request& request, Gathering& team, Workspace& space)
      : network_(network),
        request_(request),
        team_(team),
        size_(network.hidden),
        head_size_(network.hidden / network.heads),
        eps_(static_cast<float>(network.eps)) {
    const Index texts = request.texts, heads = network.heads;
    starts_ = space.starts.room<Index>(texts + 1);
    starts_[0] = 0;
    for (Index text = 0; text < texts; ++text) {
      starts_[text + 1] = starts_[text] + request.lengths[text];
    }
    // The last layer has one row for each text.
    Index rows = texts;
    for (Group group; next(group);) rows = std::max(rows, group.tokens());
    hidden_ = space.hidden.room<float>(tokens() * size_);
    states_ = factors(space.states, tokens(), size_);
    joined_ = space.joined.room<float>(rows * 3 * size_);
    context_ = space.context.room<float>(rows * size_);
    inner_ = factors(space.inner, rows, network.inner);
    if (kind == Kind::kInt8) plain_ = space.plain.room<float>(rows * network.inner);
    firsts_ = space.firsts.room<float>(texts * size_);
    queries_ = space.queries.room<float>(texts * size_);
    turned_ = space.turned.room<float>(texts * heads * size_);
    const Index scratch = scratch_of(request.longest, head_size_);
    for (int thread = 0; thread < team.threads(); ++thread) {
      scratch_[thread] = space.scratch[thread].room<float>(scratch);
    }
  }

  void run() {
    embed();
    const Index last = network_.layers - 1;
    for (Index number = 0; number < last; ++number) {
      for (Group group; next(group);) run_layer(number, group);
    }
    if (request_.states) std::memcpy(request_.states, hidden_, tokens() * size_ * sizeof(float));
    if (request_.weights) {
      for (Group group; next(group);) {
        join(network_.layer[last], group);
        attend_group(last, group, nullptr);
      }
    }
    finish();
  }

 private:
  Index tokens() const { return starts_[request_.texts]; }

  // Advances to the next group: as many texts as have at most `kGroupTokens`, at least one.
  bool next(Group& group) const {
    group.first_text = group.last_text;
    group.begin = group.end;
    if (group.first_text == request_.texts) return false;
    do {
      group.end = starts_[++group.last_text];
    } while (group.last_text < request_.texts &&
             starts_[group.last_text + 1] - group.begin <= kGroupTokens);
    return true;
  }

  static Factors factors(Buffer& buffer, Index rows, Index size) {
    const Index words = kind == Kind::kFloat32 ? size : kind == Kind::kBfloat16 ? size / 2 : size / 4;
    float* start = buffer.room<float>(rows * (words + 2));
    return {reinterpret_cast<std::uint32_t*>(start), words, start + rows * words,
            start + rows * (words + 1)};
  }

  template <class Work>
  void each_row(Index begin, Index end, Work work) {
    team_.run((end - begin + kRowsOfTask - 1) / kRowsOfTask, [&](Index task, int) {
      const Index start = begin + task * kRowsOfTask;
      for (Index row = start; row < end && row < start + kRowsOfTask; ++row) work(row);
    });
  }

  // Applies a linear layer to rows; `store` gets a row, a column and the 16 outputs from there on.
  template <class Store>
  void project(const Factors& left, const Projection& projection, Index begin, Index end,
               Store&& store) {
    const Weight weight = {projection.words, projection.length, projection.columns};
    team_.run(weight.panels(), [&](Index panel, int) {
      const float* bias = projection.bias + panel * kPanel;
      const float* scales = projection.scales + panel * kPanel;
      const float* sums = projection.sums + panel * kPanel;
      multiply<kind>(left.rows(), weight.panel(panel), weight.length, begin, end,
                     [&](Index row, Index place, Block x) {
                       if constexpr (kind == Kind::kInt8) {
                         const Block step = block_of(left.steps[row]);
                         const Block least = block_of(left.leasts[row]);
                         x = step * (x * load_block(scales + place));
                         x = multiply_add(least, load_block(sums + place), x);
                       }
                       store(row, panel * kPanel + place, x + load_block(bias + place));
                     });
    });
  }

  void embed() {
    for (Index text = 0; text < request_.texts; ++text) {
      for (Index row = starts_[text]; row < starts_[text + 1]; ++row) {
        const Index start = request_.ids[row] * size_;
        const float* place = network_.places + (row - starts_[text]) * size_;
        float* state = hidden_ + row * size_;
        if (network_.half_tokens) {
          const std::uint16_t* token = static_cast<const std::uint16_t*>(network_.tokens) + start;
          for (Index at = 0; at < size_; ++at) state[at] = from_half(token[at]) + place[at];
        } else {
          const float* token = static_cast<const float*>(network_.tokens) + start;
          for (Index at = 0; at < size_; ++at) state[at] = token[at] + place[at];
        }
      }
    }
    normalize_rows(0, tokens(), hidden_, network_.embedding_norm);
  }

  // Normalizes states, and makes them the factors of the next product.
  void normalize_rows(Index begin, Index end, float* hidden, const Norm& norm) {
    each_row(begin, end, [&](Index row) {
      normalize(hidden + row * size_, size_, norm, eps_);
      write_factors<kind>(hidden + row * size_, size_, states_, row);
    });
  }

  void run_layer(Index number, const Group& group) {
    const Layer& layer = network_.layer[number];
    join(layer, group);
    attend_group(number, group, context_);
    finish_layer(layer, group.begin, group.end, hidden_);
  }

  // Computes queries, keys and values of a group.
  void join(const Layer& layer, const Group& group) {
    width_ = layer.joined.columns;
    project(states_, layer.joined, group.begin, group.end,
            [&](Index row, Index column, const Block& x) {
              store_block(joined_ + (row - group.begin) * width_ + column, x, width_ - column);
            });
  }

  // Computes attention of a group; without `context` its weights alone.
  void attend_group(Index layer, const Group& group, float* context) {
    const Index heads = network_.heads;
    team_.run((group.last_text - group.first_text) * heads, [&](Index task, int thread) {
      const Index text = group.first_text + task / heads, head = task % heads;
      const Index row = starts_[text] - group.begin;
      const float* queries = joined_ + row * width_ + head * head_size_;
      const Head own = {queries, queries + size_, queries + 2 * size_, width_,
                        request_.lengths[text], head_size_};
      float* out = context ? context + row * size_ + head * head_size_ : nullptr;
      attend(own, scratch_[thread], out, size_, [&](Index query, const float* weights) {
        if (request_.weights) keep_weights(layer, text, head, query, weights);
      });
      if (out) mask_head(layer, text, head, out, request_.lengths[text]);
    });
  }

  // Multiplies the context of a head, `rows` rows that are D apart, by the head's factor.
  void mask_head(Index layer, Index text, Index head, float* context, Index rows) {
    if (!request_.head_mask) return;
    const Index at = (layer * request_.texts + text) * network_.heads + head;
    const float factor = request_.head_mask[at];
    if (factor == 1.0f) return;
    for (Index row = 0; row < rows; ++row) {
      for (Index place = 0; place < head_size_; ++place) context[row * size_ + place] *= factor;
    }
  }

  // Computes the rest of a layer, from `context_`, whose first row is the row `begin` of `hidden`.
  void finish_layer(const Layer& layer, Index begin, Index end, float* hidden) {
    const Index inner_size = network_.inner;
    const auto residual = [&](Index row, Index column, const Block& x) {
      float* state = hidden + row * size_ + column;
      const Index count = size_ - column;
      store_block(state, x + load_block(state, count), count);
    };
    each_row(begin, end, [&](Index row) {
      write_factors<kind>(context_ + (row - begin) * size_, size_, states_, row);
    });
    project(states_, layer.output, begin, end, residual);
    normalize_rows(begin, end, hidden, layer.attention_norm);
    const Activation activation = static_cast<Activation>(network_.activation);
    project(states_, layer.intermediate, begin, end,
            [&](Index row, Index column, const Block& sums) {
              const Block x = activate(activation, sums);
              const Index at = row - begin, count = inner_size - column;
              if constexpr (kind == Kind::kInt8) {
                store_block(plain_ + at * inner_size + column, x, count);
              } else {
                store_factors<kind>(inner_.words + at * inner_.stride, column, x, count);
              }
            });
    if constexpr (kind == Kind::kInt8) {
      each_row(0, end - begin, [&](Index row) {
        write_factors<kind>(plain_ + row * inner_size, inner_size, inner_, row);
      });
    }
    project(inner_, layer.outer, 0, end - begin,
            [&](Index row, Index column, const Block& x) { residual(begin + row, column, x); });
    normalize_rows(begin, end, hidden, layer.output_norm);
  }

  // Computes the last layer for the first token of each text, and the logits.
  void finish() {
    const FirstToken& own = network_.first;
    const Index texts = request_.texts, heads = network_.heads, last = network_.layers - 1;
    for (Index text = 0; text < texts; ++text) {
      std::memcpy(firsts_ + text * size_, hidden_ + starts_[text] * size_, size_ * sizeof(float));
    }
    linear(firsts_, own.queries, queries_);
    team_.run(heads, [&](Index head, int) {
      const Weight keys = {own.keys + head * own.key_words, head_size_, size_};
      const Rows left = {words_of(queries_ + head * head_size_), size_};
      product(left, keys, turned_ + head * size_, heads * size_);
    });
    team_.run(texts, [&](Index text, int thread) {
      for (Index head = 0; head < heads; ++head) {
        average(hidden_ + starts_[text] * size_, request_.lengths[text], size_,
                turned_ + (text * heads + head) * size_, scratch_[thread]);
        if (request_.weights) keep_weights(last, text, head, 0, scratch_[thread]);
      }
    });
    team_.run(heads, [&](Index head, int) {
      const Weight values = {own.values + head * own.value_words, size_, head_size_};
      const Rows left = {words_of(turned_ + head * size_), heads * size_};
      product(left, values, context_ + head * head_size_, size_);
    });
    for (Index text = 0; text < texts; ++text) {
      float* context = context_ + text * size_;
      for (Index at = 0; at < size_; ++at) context[at] += own.value_bias[at];
      for (Index head = 0; head < heads; ++head) {
        mask_head(last, text, head, context + head * head_size_, 1);
      }
    }
    finish_layer(network_.layer[last], 0, texts, firsts_);
    linear(firsts_, network_.pooler, queries_);
    const Activation pooling = static_cast<Activation>(network_.pooling);
    for (Index at = 0; at < texts * size_; at += kBlock) {
      const Index count = texts * size_ - at;
      store_block(queries_ + at, activate(pooling, load_block(queries_ + at, count)), count);
    }
    linear(queries_, network_.classifier, request_.logits);
  }

  // Copies the weights of one query; no token past the end of a text gets any.
  void keep_weights(Index layer, Index text, Index head, Index query, const float* weights) {
    const Index longest = request_.longest, count = request_.lengths[text];
    const Index map = (layer * request_.texts + text) * network_.heads + head;
    float* out = request_.weights + (map * longest + query) * longest;
    std::memcpy(out, weights, count * sizeof(float));
    std::memset(out + count, 0, (longest - count) * sizeof(float));
  }

  // Applies a float32 layer to one row of each text.
  void linear(const float* rows, const Projection& projection, float* out) {
    const Index columns = projection.columns;
    product({words_of(rows), projection.length}, {projection.words, projection.length, columns},
            out, columns);
    for (Index text = 0; text < request_.texts; ++text) {
      for (Index at = 0; at < columns; ++at) out[text * columns + at] += projection.bias[at];
    }
  }

  void product(Rows left, const Weight& weight, float* out, Index stride) {
    for (Index panel = 0; panel < weight.panels(); ++panel) {
      multiply<Kind::kFloat32>(left, weight.panel(panel), weight.length, 0, request_.texts,
                               [&](Index row, Index place, const Block& x) {
                                 const Index at = panel * kPanel + place;
                                 store_block(out + row * stride + at, x, weight.columns - at);
                               });
    }
  }

  const Network& network_;
  const Request& request_;
  Gathering& team_;
  const Index size_, head_size_;
  const float eps_;
  Index width_ = 0;                   // of a row of `joined_`
  Index* starts_;                     // row of each text's first token, and N
  float* hidden_;                    // [N, D]
  Factors states_, inner_;           // [N, D], [rows of a group, F]
  float *joined_, *context_;         // of a group
  float* plain_ = nullptr;           // `inner_` before it is quantized
  float *firsts_, *queries_, *turned_;  // [texts, D], the same, [texts, H, D]
  float* scratch_[kMostThreads];
};

}  // namespace headlight::HEADLIGHT_SET
