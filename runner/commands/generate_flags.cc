#include "runner/commands/flag_groups.h"
#include "runner/commands/flag_values.h"

namespace runnel {
namespace {

// Reads the list with ids_from(), because CLI11's own lists drop empty entries.
CLI::Option* add_ids_flag(CLI::App& command, const std::string& name, std::vector<uint32_t>& ids,
                          const std::string& description) {
  return command
      .add_option_function<std::string>(
          name, [name, &ids](const std::string& text) { ids = or_throw(name, ids_from(text)); }, description)
      ->type_name("ID,ID,...");
}

}  // namespace

CLI::Option* add_prompt_flag(CLI::App& command, std::vector<uint32_t>& ids) {
  return add_ids_flag(command, "--tokens", ids, "Token ids of the prompt, such as 1,2,3")
      ->required()
      ->group(kInputOutput);
}

std::vector<CLI::Option*> add_draw_flags(CLI::App& command, SamplingParams& sampling) {
  return {command.add_option("--temperature", sampling.temperature, "0: always the most likely token"),
          command.add_option("--top-k", sampling.top_k, "Sample from the N most likely tokens; 0: all"),
          command.add_option("--top-p", sampling.top_p,
                             "Sample from the most likely tokens whose probabilities add up to X; 1: all")};
}

void add_generate_flags(CLI::App& command, GenerateFlags& flags) {
  SamplingParams& sampling = flags.sampling;
  const auto sampled = [&](const char* name, auto& value, const char* description) {
    return command.add_option(name, value, description)->capture_default_str()->group(kSampling);
  };
  add_prompt_flag(command, flags.tokens);
  sampled("--max-tokens", flags.max_tokens, "Maximum tokens to generate");
  sampled("--min-tokens", flags.min_tokens, "Minimum tokens before one of --stop-ids is sampled");
  add_ids_flag(command, "--stop-ids", flags.stop_ids, "Token ids that end the answer")->group(kSampling);
  add_ids_flag(command, "--allowed-ids", sampling.allowed_ids, "Token ids to sample from")
      ->default_str("all")
      ->group(kSampling);
  add_ids_flag(command, "--banned-ids", sampling.banned_ids, "Token ids that are not sampled")
      ->group(kSampling);
  for (CLI::Option* option : add_draw_flags(command, sampling))
    option->capture_default_str()->group(kSampling);
  sampled("--min-p", sampling.min_p,
          "Sample from tokens with at least this share of the most likely token's probability; 0: all");
  sampled("--repetition-penalty", sampling.repetition_penalty,
          "Above 1: tokens of the prompt and of the answer become less likely; 1: off");
  sampled("--presence-penalty", sampling.presence_penalty,
          "Lower the logit of each token that is in the answer; 0: off");
  sampled("--frequency-penalty", sampling.frequency_penalty,
          "Lower a token's logit for each time it is in the answer; 0: off");
  command
      .add_option_function<std::vector<std::string>>(
          "--logit-bias",
          [&sampling](const std::vector<std::string>& texts) {
            for (const std::string& text : texts)
              sampling.logit_bias.push_back(or_throw("--logit-bias", bias_from(text)));
          },
          "Add BIAS to the logit of this token id; can be repeated")
      ->type_name("ID=BIAS")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(kSampling);
  sampled("--seed", sampling.seed, "Seed of the random numbers, up to 64 bits")->check(kWholeNumber);
  command
      .add_option("--logprobs", flags.logprobs,
                  "With --json: log-probabilities, also of the N most likely tokens")
      ->group(kInputOutput);
  command
      .add_option("--prompt-logprobs", flags.prompt_logprobs,
                  "With --json: the same for the prompt, from its second token on")
      ->group(kInputOutput);
}

}  // namespace runnel
