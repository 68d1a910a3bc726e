// Converts Generate and Embed frames to requests.
#pragma once

#include "runner/engine/request.h"
#include "runner/serving/messages.h"

namespace runnel {

// Converts a frame without checking it. A value that the frame leaves out gets the default of SamplingParams.
Request request_from(const wire::Generate& generate);

EmbedRequest request_from(const wire::Embed& embed);

// Converts a frame and checks it.
inline Result<Sequence> sequence_from(const wire::Generate& generate, const RequestLimits& limits) {
  return sequence_from(request_from(generate), limits);
}

}  // namespace runnel
