// A request to a language model that is being answered.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "server/answer.h"
#include "server/completion_request.h"

namespace lockstep {
inline namespace v0 {
namespace server {

/// Of what is read alone.
Json usage_of_prompt(std::size_t tokens);

/// Counts a request while it is there.
class Place {
 public:
  Place(std::atomic<int>& count, int most) : count_(count) {
    if (++count_ > most) {
      --count_;
      throw HttpError(429, fmt::format("{} requests are being answered already: try again later", most));
    }
  }
  ~Place() { --count_; }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

 private:
  std::atomic<int>& count_;
};

struct Job {
  Job(std::atomic<int>& count, int most) : place(count, most) {}

  Place place;
  bool chat = false;
  CompletionRequest request;
  Reading reading;  ///< of a chat's answer
  std::vector<std::vector<std::int64_t>> prompts;
  std::string id;
  std::int64_t created = 0;
  std::function<void()> check_time;

  std::size_t size() const { return prompts.size() * request.choices; }
  const std::vector<std::int64_t>& prompt(std::size_t choice) const { return prompts[choice / request.choices]; }
  /// Of the answer that is drawn as this one to a prompt.
  CompletionOptions options(std::size_t draw) const {
    CompletionOptions result = request.options;
    result.sampling.seed += draw;
    return result;
  }
  std::size_t prompt_tokens() const {
    std::size_t sum = 0;
    for (const auto& one : prompts) sum += one.size();
    return sum;
  }
};

}  // namespace server
}  // namespace v0
}  // namespace lockstep
