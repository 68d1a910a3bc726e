// Requests out of frames.
#pragma once

#include "runner/request.h"
#include "runner/serving/messages.h"

namespace runnel {

// As it came, unchecked. What the frame leaves out has the default of SamplingParams.
Request request_from(const wire::Generate& generate);

EmbedRequest request_from(const wire::Embed& embed);

// Checked too.
inline Result<Sequence> sequence_from(const wire::Generate& generate, const RequestLimits& limits) {
  return sequence_from(request_from(generate), limits);
}

}  // namespace runnel
