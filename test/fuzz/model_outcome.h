// What becomes of a model whose files may be anything.
#pragma once

#include <string>
#include <string_view>

namespace runnel::fuzz {

// The sentence of its refusal, "accepted", or "computed" for one in four of those that are accepted: most of
// the time would go into computing with files whose numbers are wrong and nothing else. Which one depends on
// bytes, the input. What the world cannot cause is a finding.
std::string outcome_of_model(const std::string& path, std::string_view bytes);

}  // namespace runnel::fuzz
