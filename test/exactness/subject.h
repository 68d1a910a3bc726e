// The model under test, and what its answers are made of: the engine that computes a request, watched.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runner/commands/loaded_model.h"
#include "runner/serving/request_from.h"
#include "test/exactness/answer.h"
#include "test/exactness/contender.h"
#include "test/exactness/watched_model.h"

namespace runnel::exactness {

// What may not change a bit. What may, such as the file, belongs to Subject.
struct Setting {
  EngineFlags flags;
};

// A fresh engine over a loaded model.
class WatchedEngine {
 public:
  WatchedEngine(Model& model, const EngineConfig& config) : model_(model), engine_(model_, config) {}

  // Ends the program if the request is refused: every case is one that can be computed.
  void add(const wire::Generate& request);
  // The vector of its prompt.
  void add(const wire::Generate& request, Pooling pooling);
  StepOutput compute(const Plan& plan);
  // Adds a token of the last step to its request's answer, with the bits it was drawn from.
  void append(const NewToken& token, uint32_t num_prompt_tokens, Answer& answer) const;
  Engine& engine() { return engine_; }

 private:
  WatchedModel model_;
  Engine engine_;
};

class Subject {
 public:
  // The contender must outlive it.
  Subject(const Contender& contender, const std::string& path, KvType kv_type);

  const std::string& path() const { return path_; }
  KvType kv_type() const { return kv_type_; }
  uint32_t head_dim() const { return plain_.model->config().head_dim; }
  uint32_t vocab_size() const { return plain_.model->config().vocab_size; }
  // Memory that the KV of one token takes.
  uint64_t kv_token_bytes() const;

  // The model in memory once more, as a setting says. Ends the program if it cannot be had.
  LoadedModel load(const Setting& setting) const;
  const Contender& contender() const { return contender_; }

  // The request computed plainly: nothing else in the engine, one thread, the whole prompt in one step.
  Answer answer_alone(const wire::Generate& request, uint32_t max_model_len) const;
  std::vector<float> vector_alone(const wire::Generate& request, Pooling pooling,
                                  uint32_t max_model_len) const;

 private:
  const Contender& contender_;
  std::string path_;
  KvType kv_type_;
  LoadedModel plain_;
};

}  // namespace runnel::exactness
