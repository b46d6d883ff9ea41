// A character language model: a transformer of two layers learns a sonnet and writes on from its first letter.
//   example_char_lm [steps = 300] [device = cpu]
#include <lockstep/lockstep.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

namespace ls = lockstep;

namespace {

// W. Shakespeare, Sonnet 18.
const std::string kText =
    "Shall I compare thee to a summer's day?\nThou art more lovely and more temperate:\n"
    "Rough winds do shake the darling buds of May,\nAnd summer's lease hath all too short a date:\n"
    "Sometime too hot the eye of heaven shines,\nAnd often is his gold complexion dimm'd;\n"
    "And every fair from fair sometime declines,\nBy chance or nature's changing course untrimm'd;\n"
    "But thy eternal summer shall not fade\nNor lose possession of that fair thou owest;\n"
    "Nor shall Death brag thou wander'st in his shade,\nWhen in eternal lines to time thou growest:\n"
    "So long as men can breathe or eyes can see,\nSo long lives this and this gives life to thee.\n";

constexpr std::int64_t kLength = 32;
constexpr std::int64_t kBatch = 16;
constexpr std::int64_t kWidth = 64;

struct Model : ls::nn::Module {
  explicit Model(std::int64_t characters)
      : embedding(*this, "embedding", characters, kWidth), head(*this, "head", kWidth, characters) {}

  ls::nn::Embedding embedding;
  ls::nn::Parameter positions{*this, "positions", ls::nn::init::normal({kLength, kWidth}, 0, 0.1)};
  ls::nn::TransformerEncoder encoder{
      *this,
      "encoder",
      kWidth,
      4,
      2,
      {.layer = {.dim_feedforward = 4 * kWidth, .dropout = 0, .batch_first = true, .norm_first = true},
       .final_norm = true}};
  ls::nn::Linear head;

  /// Characters [N, L] to the scores of each one's successor [N, L, characters].
  ls::Tensor forward(const ls::Tensor& ids) const {
    const ls::Tensor x = embedding(ids) + positions.tensor().narrow(0, 0, ids.size(1));
    return head(encoder(x, {.causal = true}));
  }
};

}  // namespace

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 300;
  const ls::Device device = ls::Device::parse(argc > 2 ? argv[2] : "cpu");
  ls::manual_seed(1);

  std::string alphabet;
  std::vector<std::int64_t> numbers;
  for (const char letter : kText) {
    if (alphabet.find(letter) == std::string::npos) alphabet += letter;
    numbers.push_back(static_cast<std::int64_t>(alphabet.find(letter)));
  }
  const auto characters = static_cast<std::int64_t>(alphabet.size());
  const ls::Tensor text = ls::Tensor::from(numbers, {static_cast<std::int64_t>(numbers.size())}, device);
  const ls::Tensor windows = text.unfold(0, kLength + 1, 1);  // every stretch of the text with what follows it

  Model model(characters);
  model.to(device);
  ls::optim::AdamW optimizer(model.parameters(), {.lr = 3e-3});
  float first = 0, last = 0;
  for (int step = 0; step < steps; ++step) {
    const ls::Tensor batch = ls::index_select(
        windows, 0, ls::randint(0, windows.size(0), {kBatch}, {.dtype = ls::DType::i64, .device = device}));
    const ls::Tensor scores = model.forward(batch.narrow(1, 0, kLength));
    const ls::Tensor loss = ls::cross_entropy(scores.flatten(0, 1), batch.narrow(1, 1, kLength).flatten());
    optimizer.step(loss);
    last = loss.item<float>();
    if (step == 0) first = last;
    if (step % 50 == 0 || step + 1 == steps) std::cout << "step " << step << ", loss " << last << '\n';
  }

  model.eval();
  const ls::NoGrad no_grad;
  std::vector<std::int64_t> written{numbers[0]};
  while (written.size() < 160) {
    const auto length = std::min(static_cast<std::int64_t>(written.size()), kLength);
    const ls::Tensor context =
        ls::Tensor::from(std::vector<std::int64_t>(written.end() - length, written.end()), {1, length}, device);
    const ls::Tensor scores = model.forward(context).select(1, length - 1);
    written.push_back(ls::multinomial(ls::softmax(scores / 0.5, 1), 1).item<std::int64_t>());
  }
  for (const std::int64_t number : written) std::cout << alphabet[static_cast<std::size_t>(number)];
  std::cout << '\n';
  return steps < 2 || last < first ? EXIT_SUCCESS : EXIT_FAILURE;
}
