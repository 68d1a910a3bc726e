// Commands of people and scripts: one JSON object with one member, named as in proto/runner.proto.
#pragma once

#include <string_view>

#include "runner/result.h"
#include "runner/serving/messages.h"

namespace runnel {

// {"cancel":{"request_id":1}}. Numbers of 64 bits may also be strings. Fails with kProtocol and a sentence
// that names the member: no JSON, no message or more than one, a field that the protocol does not have, or a
// value that its field cannot hold. Limits of values are the engine's to check, as with any command.
Result<wire::ToRunner> command_from_json(std::string_view text);

}  // namespace runnel
