// The model under test, and an engine whose answers are recorded with hashes of their logits.
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

// Settings that must not change a bit. Those that may, as the model file, belong to Subject.
struct Setting {
  EngineFlags flags;
  // Whether the logits are read. A device that computes ahead keeps them to itself.
  bool reads_logits = true;
};

// A fresh engine over a loaded model.
class WatchedEngine {
 public:
  WatchedEngine(Model& model, const EngineConfig& config, bool reads_logits = true)
      : model_(model, reads_logits), engine_(model_, config) {}

  // Ends the program if the request is refused, since every case can be computed.
  void add(const wire::Generate& request);
  // Adds a request for the vector of the prompt.
  void add(const wire::Generate& request, Pooling pooling);
  StepOutput compute(const Plan& plan);
  // Appends a token of the last step to the answer of its request, with the hash of its logits.
  void append(const NewToken& token, uint32_t num_prompt_tokens, Answer& answer) const;
  Engine& engine() { return engine_; }

 private:
  WatchedModel model_;
  Engine engine_;
};

class Subject {
 public:
  // The contender must outlive it.
  Subject(const Contender& contender, const std::string& path, KvType kv_type, uint32_t num_devices);

  const std::string& path() const { return path_; }
  KvType kv_type() const { return kv_type_; }
  uint32_t head_dim() const { return plain_.model->config().head_dim; }
  // Whether so many devices as were given can share the model.
  bool is_divisible() const { return is_divisible_; }
  uint32_t vocab_size() const { return plain_.model->config().vocab_size; }
  // Of the groups of layers.
  std::span<const uint32_t> kv_windows() const;

  // Loads the model once more, with this setting. Ends the program if that fails.
  LoadedModel load(const Setting& setting) const;
  const Contender& contender() const { return contender_; }

  // Computes the request alone in its engine, by one thread, with the whole prompt in one step.
  Answer answer_alone(const wire::Generate& request, uint32_t max_model_len) const;
  std::vector<float> vector_alone(const wire::Generate& request, Pooling pooling,
                                  uint32_t max_model_len) const;

 private:
  const Contender& contender_;
  std::string path_;
  KvType kv_type_;
  LoadedModel plain_;
  bool is_divisible_;
};

}  // namespace runnel::exactness
