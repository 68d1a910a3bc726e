#include "runner/synth/byte_tokenizer.h"

#include <string>
#include <vector>

#include "runner/check.h"

namespace runnel {
namespace {

// As models in the ChatML format have it.
constexpr std::string_view kChatTemplate =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + "
    "'<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
constexpr uint32_t kEndOfTurn = 2;
// Types of tokens in GGUF files.
constexpr int32_t kNormal = 1;
constexpr int32_t kControl = 3;

std::string utf8_of(uint32_t character) {
  if (character < 0x80) return {static_cast<char>(character)};
  return {static_cast<char>(0xc0 | character >> 6), static_cast<char>(0x80 | (character & 0x3f))};
}

// GPT-2's printable characters for bytes: the others are, in their order, those from 256 on.
std::vector<std::string> byte_texts() {
  std::vector<std::string> texts;
  uint32_t spare = 256;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool is_printable =
        (byte >= 33 && byte < 127) || (byte >= 161 && byte < 173) || (byte >= 174 && byte < 256);
    texts.push_back(utf8_of(is_printable ? byte : spare++));
  }
  return texts;
}

std::string array_of(uint32_t type, uint64_t count, const std::string& elements) {
  return raw(type) + raw(count) + elements;
}

}  // namespace

void add_byte_tokenizer(uint32_t vocab_size, GgufMetadata& metadata) {
  CHECK(vocab_size >= kLeastByteVocabulary);
  std::vector<std::string> texts = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  const auto num_control = static_cast<uint32_t>(texts.size());
  for (std::string& text : byte_texts()) texts.push_back(std::move(text));
  while (texts.size() < vocab_size) texts.push_back(std::string("w").append(std::to_string(texts.size())));
  std::string tokens;
  std::string types;
  for (uint32_t id = 0; id < vocab_size; ++id) {
    tokens += raw_text(texts[id]);
    types += raw(id < num_control ? kControl : kNormal);
  }
  metadata.text("tokenizer.ggml.model", "gpt2");
  metadata.text("tokenizer.ggml.pre", "smollm");
  metadata.entry("tokenizer.ggml.tokens", kGgufArray, array_of(kGgufString, vocab_size, tokens));
  metadata.entry("tokenizer.ggml.token_type", kGgufArray, array_of(kGgufInt32, vocab_size, types));
  metadata.entry("tokenizer.ggml.merges", kGgufArray, array_of(kGgufString, 0, ""));
  metadata.u32("tokenizer.ggml.bos_token_id", 1);
  metadata.u32("tokenizer.ggml.eos_token_id", kEndOfTurn);
  metadata.text("tokenizer.chat_template", kChatTemplate);
}

}  // namespace runnel
