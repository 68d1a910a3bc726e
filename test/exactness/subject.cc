#include "test/exactness/subject.h"

#include <cstdio>
#include <cstdlib>

#include "runner/commands/memory_plan.h"
#include "runner/ranks/shard_plan.h"

namespace runnel::exactness {
namespace {

// The largest number of rows of a step; no case has a longer prompt.
constexpr uint32_t kPlainRows = 512;
// The length that the plain model is loaded for. It must be about that of the other runners, because a model
// may have other rope factors for long texts.
constexpr uint32_t kPlainPositions = 100;

[[noreturn]] void give_up(const std::string& sentence) {
  std::fprintf(stderr, "exactness: %s\n", sentence.c_str());
  std::abort();
}

Setting plain_setting(const std::string& path, KvType kv_type) {
  Setting setting;
  setting.flags.model = path;
  setting.flags.kv_cache_type = kv_type;
  setting.flags.num_threads = 1;
  setting.flags.max_model_len = kPlainPositions;
  setting.flags.max_num_seqs = 1;
  setting.flags.max_num_batched_tokens = kPlainRows;
  setting.flags.speculation = false;
  return setting;
}

}  // namespace

void WatchedEngine::add(const wire::Generate& request) {
  Result<Sequence> sequence = sequence_from(request, engine_.limits());
  if (!sequence.ok()) give_up(sequence.error().message);
  if (const auto refusal = engine_.add(*std::move(sequence))) give_up(refusal->message);
}

void WatchedEngine::add(const wire::Generate& request, Pooling pooling) {
  Result<Sequence> sequence =
      sequence_from({.request_id = request.request_id(),
                     .token_ids = {request.token_ids().begin(), request.token_ids().end()},
                     .pooling = pooling,
                     .cache_salt = request.cache_salt()},
                    engine_.limits());
  if (!sequence.ok()) give_up(sequence.error().message);
  if (const auto refusal = engine_.add(*std::move(sequence))) give_up(refusal->message);
}

StepOutput WatchedEngine::compute(const Plan& plan) {
  model_.expect(plan);
  StepOutput output = engine_.compute(plan);
  if (!output.errors.empty()) give_up(output.errors.front().message);
  return output;
}

void WatchedEngine::append(const NewToken& token, uint32_t num_prompt_tokens, Answer& answer) const {
  answer.is_in_order &= token.index == answer.size() && answer.finish_reason == FinishReason::kNone;
  const uint32_t position = num_prompt_tokens + answer.size() - 1;
  answer.logits_hashes.push_back(model_.logits_hash(token.request_id, position));
  answer.token_ids.push_back(token.token_id);
  answer.finish_reason = token.finish_reason;
}

Subject::Subject(const Contender& contender, const std::string& path, KvType kv_type, uint32_t num_devices)
    : contender_(contender), path_(path), kv_type_(kv_type), plain_(load(plain_setting(path, kv_type))) {
  const auto counted = count_weights(plain_.file, plain_.model->config(), *plain_.backend);
  if (!counted.ok()) give_up(counted.error().message);
  is_divisible_ = ShardPlan::make(counted->spec, num_devices).ok();
}

LoadedModel Subject::load(const Setting& setting) const {
  Result<std::unique_ptr<Backend>> backend = contender_.make(setting.flags.backend_options());
  if (!backend.ok()) give_up(backend.error().message);
  Result<LoadedModel> loaded = runnel::load(setting.flags, *std::move(backend), [](uint64_t, uint64_t) {});
  if (!loaded.ok()) give_up(loaded.error().message);
  return *std::move(loaded);
}

std::span<const uint32_t> Subject::kv_windows() const {
  return plain_.engine->config().scheduler.windows;
}

Answer Subject::answer_alone(const wire::Generate& request, uint32_t max_model_len) const {
  EngineConfig config = plain_.engine->config();
  config.max_model_len = max_model_len;
  WatchedEngine engine(*plain_.model, config);
  engine.add(request);
  Answer answer;
  while (engine.engine().has_work()) {
    const Plan plan = engine.engine().schedule();
    for (const NewToken& token : engine.compute(plan).tokens)
      engine.append(token, static_cast<uint32_t>(request.token_ids_size()), answer);
  }
  return answer;
}

std::vector<float> Subject::vector_alone(const wire::Generate& request, Pooling pooling,
                                         uint32_t max_model_len) const {
  EngineConfig config = plain_.engine->config();
  config.max_model_len = max_model_len;
  WatchedEngine engine(*plain_.model, config);
  engine.add(request, pooling);
  while (engine.engine().has_work()) {
    const StepOutput output = engine.compute(engine.engine().schedule());
    if (!output.embedded.empty()) return output.embedded.front().values;
  }
  give_up("a vector did not come");
}

}  // namespace runnel::exactness
