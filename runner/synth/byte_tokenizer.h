// The tokenizer of a model whose text is noise: a token for each byte, and words that no text becomes, so
// that the gateway can serve the file.
#pragma once

#include <cstdint>

#include "runner/synth/gguf_writer.h"

namespace runnel {

// Control tokens and bytes.
inline constexpr uint32_t kLeastByteVocabulary = 3 + 256;

// Adds a byte-level tokenizer of vocab_size tokens, at least kLeastByteVocabulary, and a chat template.
void add_byte_tokenizer(uint32_t vocab_size, GgufMetadata& metadata);

}  // namespace runnel
