// JSON of untrusted files, read into memory within bounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "runner/result.h"

namespace runnel {

inline constexpr uint32_t kMaxJsonDepth = 64;
// Of all kinds, those inside others among them. With it a hostile file cannot take much more memory than its
// own size, or long.
inline constexpr uint32_t kMaxJsonValues = 1 << 20;
inline constexpr size_t kMaxJsonDigits = 4096;  // in a row: reading a number takes long

// what: begins the sentence of an error, "the header of FILE". Errors: kBadModel for what is no JSON or not
// UTF-8, a name that an object has twice, or more than the bounds.
Result<nlohmann::json> parse_json(std::string_view text, const std::string& what);

}  // namespace runnel
