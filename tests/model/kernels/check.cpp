// Runs recorded passes by every set of instructions that this processor has, and compares results.
//
//     check FILE
//
// Prints the sets, the fastest first. test_processors.py compiles this, writes the file and says
// what is in it.
//
// Legend: B texts, T tokens of the longest text, L layers, H heads, C classes.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "../../../model/kernels/encoder.h"

extern "C" int headlight_instruction_set(std::int64_t number,
                                         headlight::InstructionSet* out) noexcept;

namespace {

using namespace headlight;
using Numbers = std::vector<float>;

class File {
 public:
  explicit File(const char* path) : stream_(path, std::ios::binary) {}
  bool is_over() { return stream_.peek() == EOF; }

  // Reads a part: its size in bytes, and its bytes.
  template <class Number>
  std::vector<Number> part() {
    std::int64_t size = 0;
    stream_.read(reinterpret_cast<char*>(&size), sizeof size);
    std::vector<Number> numbers(static_cast<std::size_t>(size) / sizeof(Number));
    stream_.read(reinterpret_cast<char*>(numbers.data()), size);
    return numbers;
  }

 private:
  std::ifstream stream_;
};

struct Texts {
  std::vector<std::int64_t> lengths, ids;
  Numbers head_mask;  // [L, B, H]
  Index longest = 0;
};

struct Results {
  Numbers logits, weights;  // [B, C], [L, B, H, T, T]
};

struct Recorded {
  std::vector<std::int64_t> words;  // of a `Network`, and of its `Layer`s
  std::vector<std::int64_t> layers;
  std::vector<std::vector<char>> tensors;
  std::int64_t panel_columns = 0;
  Results results[2];  // without the head mask, and with it

  const Network& network() const { return *reinterpret_cast<const Network*>(words.data()); }
};

// Reads a network whose pointers are the addresses that parts had where it was recorded.
Recorded read_network(File& file) {
  Recorded read;
  const std::vector<std::int64_t> addresses = file.part<std::int64_t>();
  read.panel_columns = addresses[0];
  read.words = file.part<std::int64_t>();
  read.layers = file.part<std::int64_t>();
  std::map<std::int64_t, std::int64_t> moved;
  moved[addresses[1]] = reinterpret_cast<std::int64_t>(read.layers.data());
  for (std::size_t at = 2; at < addresses.size(); ++at) {
    read.tensors.push_back(file.part<char>());
    moved[addresses[at]] = reinterpret_cast<std::int64_t>(read.tensors.back().data());
  }
  for (std::vector<std::int64_t>* words : {&read.words, &read.layers}) {
    for (std::int64_t& word : *words) {
      if (const auto found = moved.find(word); found != moved.end()) word = found->second;
    }
  }
  for (Results& results : read.results) results = {file.part<float>(), file.part<float>()};
  return read;
}

class Check {
 public:
  Check(const InstructionSet& set, const Recorded& recorded, const Texts& texts)
      : set_(set), network_(recorded.network()), texts_(texts) {
    const Kind kind = static_cast<Kind>(network_.kind);
    // Sums of bfloat16 are rounded by each processor in its way. Without i8mm bytes have an offset.
    const std::string name = set.name;
    const bool is_offset = name == "neon" || name == "neon_dotprod";
    tolerance_ = kind == Kind::kBfloat16 ? 0.05f : kind == Kind::kInt8 && is_offset ? 1e-4f : 0.0f;
    for (bool is_masked : {false, true}) {
      expected_[is_masked] = recorded.results[is_masked];
      if (tolerance_ == 0.0f) continue;
      compare(0, count(), 1, true, is_masked);
      expected_[is_masked] = own_;
    }
    tolerance_ = 0.0f;
  }

  // Runs texts together and each alone, in every way.
  void run() {
    for (int threads : {1, 3}) {
      for (bool is_masked : {false, true}) {
        for (bool needs_weights : {false, true}) {
          compare(0, count(), threads, needs_weights, is_masked);
          for (Index text = 0; text < count(); ++text) {
            compare(text, text + 1, threads, needs_weights, is_masked);
          }
        }
      }
    }
  }

  // Runs texts together, beside others who do so and want the helpers too.
  void run_beside() {
    for (int turn = 0; turn < 4; ++turn) compare(0, count(), 3, turn % 2, turn / 2);
  }

  bool is_right() const { return is_right_; }

 private:
  Index count() const { return static_cast<Index>(texts_.lengths.size()); }

  void compare(Index first, Index last, int threads, bool needs_weights, bool is_masked) {
    const std::int64_t* ids = texts_.ids.data();
    for (Index text = 0; text < first; ++text) ids += texts_.lengths[text];
    const Index texts = last - first, heads = network_.heads;
    const Index longest = texts == 1 ? texts_.lengths[first] : texts_.longest;
    Numbers mask;
    for (Index layer = 0; layer < network_.layers; ++layer) {
      const auto start = texts_.head_mask.begin() + (layer * count() + first) * heads;
      mask.insert(mask.end(), start, start + texts * heads);
    }
    own_.logits.assign(texts * network_.classes, 0.0f);
    own_.weights.assign(network_.layers * texts * heads * longest * longest, 0.0f);
    const int fault = set_.encode(&network_, ids, texts_.lengths.data() + first, texts, threads,
                                  own_.logits.data(), needs_weights ? own_.weights.data() : nullptr,
                                  longest, is_masked ? mask.data() : nullptr, nullptr);
    const Results& expected = expected_[is_masked];
    bool is_right = fault == 0;
    is_right &= agree(&own_.logits[0], &expected.logits[first * network_.classes],
                      texts * network_.classes);
    for (Index map = 0; needs_weights && map < network_.layers * texts * heads; ++map) {
      const Index text = first + map / heads % texts;
      const Index other = (map / heads / texts * count() + text) * heads + map % heads;
      for (Index query = 0; query < texts_.lengths[text]; ++query) {
        const Index row = (other * texts_.longest + query) * texts_.longest;
        is_right &= agree(&own_.weights[(map * longest + query) * longest],
                          &expected.weights[row], longest);
      }
    }
    if (is_right) return;
    is_right_ = false;
    std::fprintf(stderr, "%s, kind %d: wrong for texts %d to %d, threads %d, weights %d, mask %d\n",
                 set_.name, static_cast<int>(network_.kind), static_cast<int>(first),
                 static_cast<int>(last), threads, needs_weights, is_masked);
  }

  bool agree(const float* found, const float* expected, Index numbers) const {
    if (tolerance_ == 0.0f) return std::memcmp(found, expected, numbers * sizeof(float)) == 0;
    for (Index at = 0; at < numbers; ++at) {
      if (!(std::abs(found[at] - expected[at]) <= tolerance_)) return false;
    }
    return true;
  }

  const InstructionSet& set_;
  const Network& network_;
  const Texts& texts_;
  float tolerance_;
  Results own_, expected_[2];
  bool is_right_ = true;
};

}  // namespace

int main(int, char** arguments) {
  File file(arguments[1]);
  Texts texts;
  texts.lengths = file.part<std::int64_t>();
  texts.ids = file.part<std::int64_t>();
  texts.head_mask = file.part<float>();
  texts.longest = *std::max_element(texts.lengths.begin(), texts.lengths.end());
  std::vector<Recorded> networks;
  while (!file.is_over()) networks.push_back(read_network(file));

  int wrong = 0;
  InstructionSet set;
  for (std::int64_t number = 0; headlight_instruction_set(number, &set); ++number) {
    std::printf("%s\n", set.name);
    for (const Recorded& recorded : networks) {
      const std::int64_t kind = recorded.network().kind;
      if (recorded.panel_columns != set.panel_columns || !(set.kinds >> kind & 1)) continue;
      std::vector<Check> checks(3, Check(set, recorded, texts));
      checks[0].run();
      std::vector<std::thread> threads;
      for (Check& check : checks) threads.emplace_back([&check] { check.run_beside(); });
      for (std::thread& thread : threads) thread.join();
      for (const Check& check : checks) wrong += !check.is_right();
    }
  }
  return wrong != 0;
}
